"""Every loader that autopipe is compared with does the flower job, epoch by epoch."""

from dataclasses import replace

import numpy as np
import pytest

import autopipe
from autopipe.planning.memory.pages import ASKING, HugePages
from benchmarks import epochs
from benchmarks.cases import a_flowers, b_imagenet
from benchmarks.children import save_data
from benchmarks.peers import dali_records, torch_dataloader
from benchmarks.peers._base import BATCH, SIZE, all_peers

COUNT = 75
PEERS = [
    pytest.param(peer, id=peer.name, marks=pytest.mark.skipif(not peer.installed, reason=peer.install))
    for peer in all_peers()
    if peer.letter == "a"
]
augmented_or_not = pytest.mark.parametrize("augment", [False, True], ids=["plain", "augmented"])
# The other packages are not ours to keep free of warnings.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return a_flowers.make_data(tmp_path_factory.mktemp("flowers"), COUNT)


@pytest.fixture(scope="module")
def written(folder):
    return joined(a_flowers.expert(folder))


def parts_of(batch):
    return batch.values() if isinstance(batch, dict) else batch


def joined(batches):
    images, labels = zip(*map(parts_of, batches), strict=True)
    return np.concatenate(images), np.concatenate(labels)


def nearest(images, others):
    """The place of what each image looks like most; its 8x8 mean colours tell it from the rest."""
    distances = np.square(mean_colours(images)[:, None] - mean_colours(others)[None]).sum(axis=2)
    return distances.argmin(axis=1)


def mean_colours(images):
    return images.reshape(len(images), 8, SIZE[0] // 8, 8, SIZE[1] // 8, 3).mean(axis=(2, 4)).reshape(len(images), -1)


@pytest.mark.one_in(2)
@augmented_or_not
@pytest.mark.parametrize("peer", PEERS)
def test_an_epoch_has_the_labels_of_all_files_in_batches(peer, augment, folder, written):
    epoch = peer.make(folder, augment)
    for _ in range(2):
        labels = [np.asarray(labels) for _, labels in map(parts_of, epoch())]
        assert sorted(map(len, labels), reverse=True) == [BATCH, BATCH, COUNT - 2 * BATCH]
        assert sorted(np.concatenate(labels)) == sorted(written[1])


@pytest.mark.one_in(2)
@augmented_or_not
@pytest.mark.parametrize("peer", PEERS)
def test_images_are_square_floats_between_0_and_1(peer, augment, folder):
    beyond = a_flowers.BRIGHTNESS + 1e-3 if augment else 0
    images, _ = joined(peer.make(folder, augment)())
    assert images.shape == (COUNT, *SIZE, 3)
    assert images.dtype == np.float32
    assert images.min() >= -beyond
    assert images.max() <= 1 + beyond
    assert images.max() > 0.9


@pytest.mark.one_in(2)
@pytest.mark.parametrize("peer", PEERS)
def test_an_epoch_gives_every_image_once_with_its_label(peer, folder, written):
    images, labels = joined(peer.make(folder, False)())
    places = nearest(images, written[0])
    assert sorted(places) == list(range(COUNT))
    assert np.array_equal(labels, written[1][places])
    assert np.abs(images - written[0][places]).mean() < 0.02


@pytest.mark.one_in(2)
@pytest.mark.parametrize("peer", PEERS)
def test_an_epoch_gives_the_images_in_an_order_of_its_own(peer, folder, written):
    epoch = peer.make(folder, False)
    # Three batches that are kept as they are have six orders.
    epochs = 8 if "cached" in peer.name else 2
    orders = {tuple(nearest(joined(epoch())[0], written[0])) for _ in range(epochs)}
    assert len(orders) > 1
    assert tuple(range(COUNT)) not in orders


@pytest.mark.one_in(2)
@pytest.mark.parametrize("peer", PEERS)
def test_augmentation_mirrors_some_images_and_draws_anew_in_every_epoch(peer, folder, written):
    epoch = peer.make(folder, True)
    first, second = (joined(epoch())[0] for _ in range(2))
    mirrored = np.concatenate([written[0], written[0][:, :, ::-1]])
    assert 0 < sum(nearest(first, mirrored) >= COUNT) < COUNT
    assert sorted(first.mean(axis=(1, 2, 3))) != sorted(second.mean(axis=(1, 2, 3)))


@pytest.mark.skipif(not dali_records.PEER.installed, reason=dali_records.PEER.install)
def test_records_are_read_once_in_an_epoch_and_cropped_at_random(tmp_path):
    shards = b_imagenet.make_data(tmp_path, 90)
    written = joined(b_imagenet.expert(shards))
    epoch = dali_records.PEER.make(shards, False)
    (images, labels), (again, _) = joined(epoch()), joined(epoch())
    assert images.shape == written[0].shape
    assert images.dtype == np.float32
    assert sorted(labels) == sorted(written[1])
    assert np.abs(images.mean() - written[0].mean()) < 0.02
    assert sorted(images.mean(axis=(1, 2, 3))) != sorted(again.mean(axis=(1, 2, 3)))


LOADERS = ["naive", "expert", "autopipe(naive)", "autopipe(naive), its plan kept", "autopipe(expert)"]


@pytest.mark.one_in(2)
@augmented_or_not
def test_every_installed_loader_reads_its_epochs(augment, tmp_path, monkeypatch):
    # What optimize() makes is tested elsewhere, and its measuring takes seconds.
    monkeypatch.setattr(
        epochs, "make_variant", lambda case, _, data, **__: autopipe.optimize(case.naive(data), rules=[])
    )
    monkeypatch.setattr(epochs, "_CLAIMED_BYTES", 1)
    case = a_flowers.CASES[augment]
    save_data(case, tmp_path, count=COUNT)
    for loader in (*LOADERS, *(peer.name for peer in all_peers() if peer.letter == "a" and peer.installed)):
        run = epochs.run_loader(case, loader, tmp_path, 2)
        assert len(run.epochs) == 2
        assert min(run.preparing, *run.epochs, *run.least) > 0
        assert len(run.least) == 2


def test_the_plan_that_is_kept_is_that_of_the_loader_before(tmp_path, monkeypatch):
    given = []
    optimize = autopipe.optimize

    def noted(dataset, **arguments):
        given.append(arguments)
        return optimize(dataset, rules=["prefetch_at_end"], seconds=0) if "plan" not in arguments else dataset

    monkeypatch.setattr(autopipe, "optimize", noted)
    monkeypatch.setattr(epochs, "_CLAIMED_BYTES", 1)
    save_data(a_flowers.CASES[0], tmp_path, count=COUNT)
    for loader in ("autopipe(naive)", "autopipe(naive), its plan kept"):
        epochs.run_loader(a_flowers.CASES[0], loader, tmp_path, 1)
    written, kept = given
    assert "plan" not in written
    assert autopipe.Plan.load(kept["plan"]).rules == ("prefetch_at_end",)


@pytest.fixture
def few_loaders(monkeypatch):
    monkeypatch.setattr(epochs, "_IN_LARGE_PAGES", {})
    monkeypatch.setattr(epochs, "all_peers", tuple)
    monkeypatch.setattr(epochs, "_LARGER", {"a": {"count": COUNT}})


@pytest.mark.deep
def test_a_run_of_a_loader_has_a_process_of_its_own(tmp_path, monkeypatch, few_loaders):
    monkeypatch.setattr(epochs, "_VARIANTS", ("naive",))
    (result,) = epochs.compare_loaders(a_flowers.CASES[0], tmp_path, processes=1, epochs=3)
    (run,) = result.runs
    assert result.name == "naive"
    assert len(run.epochs) == 3
    assert min(result.seconds, *run.epochs) > 0


def test_loaders_take_turns_and_each_second_round_goes_the_other_way(tmp_path, monkeypatch, few_loaders):
    figures = {"preparing": 1.0, "epochs": [1.0], "least": [0.5]}
    monkeypatch.setattr(epochs, "_VARIANTS", ("naive", "expert"))
    monkeypatch.setattr(epochs, "run_child", lambda *_, **given: {**figures, "preparing": float(len(told))})
    told = []
    results = epochs.compare_loaders(a_flowers.CASES[0], tmp_path, processes=2, epochs=1, on_run=told.append)
    assert sorted(told[:2]) == ["expert", "naive"]
    assert told[2:] == told[1::-1]
    numbers = {each.name: [run.preparing for run in each.runs] for each in results}
    assert numbers == {told[0]: [1, 4], told[1]: [2, 3]}


def test_the_plan_that_is_kept_is_of_a_run_before_all_that_are_compared(tmp_path, monkeypatch, few_loaders):
    figures = {"preparing": 1.0, "epochs": [1.0], "least": [0.5]}
    started = []
    monkeypatch.setattr(epochs, "run_child", lambda *_, **given: started.append(given) or figures)
    epochs.compare_loaders(a_flowers.CASES[0], tmp_path, processes=2, epochs=3)
    assert (started[0]["loader"], started[0]["epochs"]) == ("autopipe(naive)", 1)
    assert [each["epochs"] for each in started[1:]] == [3] * (len(started) - 1)


@pytest.mark.parametrize("missing", [True, False], ids=["asking helps", "asking changes nothing"])
def test_who_is_to_have_large_pages_is_the_same_loader_started_in_another_environment(tmp_path, monkeypatch, missing):
    started = []
    figures = {"preparing": 1.0, "epochs": [1.0], "least": [0.5]}
    monkeypatch.setattr(
        epochs,
        "run_child",
        lambda module, environment, **given: started.append((given["loader"], environment)) or figures,
    )
    pages = HugePages("madvise", asked=False, can_ask=missing)
    monkeypatch.setattr(HugePages, "here", lambda: pages)
    monkeypatch.setattr(epochs, "_VARIANTS", ("expert",))
    monkeypatch.setattr(epochs, "all_peers", tuple)
    monkeypatch.setattr(epochs, "_LARGER", {"a": {"count": COUNT}})
    results = epochs.compare_loaders(a_flowers.CASES[0], tmp_path, processes=1, epochs=1)
    asking = [("expert", ASKING), ("autopipe(naive)", ASKING)] if missing else []
    assert sorted(started, key=str) == sorted([("expert", {}), *asking], key=str)
    assert all(("GLIBC_TUNABLES" in each.note) is ("2 MiB" in each.name) for each in results)


def test_what_a_loader_takes_is_the_median_of_its_runs():
    runs = (epochs.LoaderRun(1.0, (2.0, 4.0)), epochs.LoaderRun(3.0, (2.0, 5.0)), epochs.LoaderRun(2.0, (4.0, 6.0)))
    ours, theirs = (
        epochs.LoaderResult("ours", runs),
        epochs.LoaderResult("theirs", (epochs.LoaderRun(0.0, (30.0,)),) * 3),
    )
    assert (ours.seconds, ours.preparing, ours.first_epoch, ours.later_epoch) == (10.0, 2.0, 2.0, 5.0)
    assert ours.times(theirs).median == 3.0


@pytest.mark.parametrize("package", ["not_there", "not_there.at_all", "os.not_there"])
def test_a_peer_that_is_not_installed_is_named_with_its_command(package, monkeypatch):
    peer = replace(torch_dataloader.PEER, name="Other", package=package, install="pip install other")
    monkeypatch.setattr(epochs, "all_peers", lambda: (peer,))
    assert epochs.missing_peers() == ["Other is not installed: pip install other"]


def test_a_peer_without_what_its_module_needs_is_not_installed():
    peer = replace(torch_dataloader.PEER, package="numpy")
    assert peer.installed
    assert not replace(peer, ready=lambda: False).installed
