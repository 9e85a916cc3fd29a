"""How figures are shown."""

__all__ = ["bar", "bytes_text", "duration_text", "rate_text"]

_BAR = 8
_EIGHTHS = " ▏▎▍▌▋▊▉"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def bytes_text(count: float) -> str:
    """Return a number of bytes with its unit.

    >>> bytes_text(1536), bytes_text(1010 * 1024)
    ('1.5 KiB', '0.986 MiB')
    """
    units = iter(_UNITS)
    unit = next(units)
    # From here on, three digits would not be all of those before the point.
    while count >= 999.5 and (larger := next(units, None)):
        count, unit = count / 1024, larger
    return f"{count:.3g} {unit}"


def duration_text(seconds: float) -> str:
    """Return a time with its unit.

    >>> duration_text(0.0021), duration_text(3.5e-6), duration_text(1.5), duration_text(0.0009999)
    ('2.1 ms', '3.5 us', '1.5 s', '1 ms')
    """
    if seconds >= 0.9995:
        return f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:.3g} s"
    return f"{seconds * 1e3:,.3g} ms" if seconds >= 0.9995e-3 else f"{seconds * 1e6:,.3g} us"


def rate_text(rate: float) -> str:
    """Return a rate in four digits, or all of them before the point.

    >>> rate_text(45.1612), rate_text(999.96), rate_text(19620.3)
    ('45.16', '1,000', '19,620')
    """
    return f"{rate:,.0f}" if rate >= 999.95 else f"{rate:.4g}"


def bar(share: float) -> str:
    """Return a bar for a share between 0 and 1, with blanks up to where 1 would reach.

    >>> bar(0.5)
    '████    '
    """
    eighths = round(share * _BAR * 8)
    blocks = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return f"{blocks:{_BAR}}"
