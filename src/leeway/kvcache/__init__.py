"""Key and value cache bookkeeping: which blocks belong to which sequence."""

from leeway.kvcache.block_pool import BlockPool, BlockTable

__all__ = ["BlockPool", "BlockTable"]
