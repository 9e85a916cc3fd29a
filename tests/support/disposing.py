"""Wait until what is disposed of aside is gone."""

import threading


def wait_for_disposal():
    for thread in threading.enumerate():
        if thread.name == "autopipe-disposal":
            thread.join()
