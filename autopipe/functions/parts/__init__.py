"""One function in several parts, which run one after the other, or each on its own."""
