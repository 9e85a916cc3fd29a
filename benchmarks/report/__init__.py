"""What is made of the measurements: the summary line, JSON, a Markdown report and a chart."""

from benchmarks.report.cases import summary
from benchmarks.report.document import markdown, write
from benchmarks.report.results import Made, Results, joined, read

__all__ = ["Made", "Results", "joined", "markdown", "read", "summary", "write"]
