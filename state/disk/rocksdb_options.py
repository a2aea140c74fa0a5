"""Options of the databases: what they share in a process, and what a store's rows need."""

from __future__ import annotations

from functools import cache

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DataBlockIndexType,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    WriteBufferManager,
)

MEMORY_PER_PROCESS = 52 << 20
"""Blocks and write buffers of every database of a process together, in bytes."""
WRITE_BUFFERS_PER_PROCESS = 28 << 20
"""The part of it that unflushed writes may take before RocksDB flushes them to files."""

_MEMTABLE = 16 << 20  # the write buffer manager decides when to flush, mostly before one is so full
_MEMTABLE_BLOOM_SHARE = 0.02  # 320 KB, about 16 bits for each key of small rows


@cache
def _shared_memory() -> tuple[Cache, WriteBufferManager]:
    blocks = Cache(MEMORY_PER_PROCESS)
    return blocks, WriteBufferManager.new_write_buffer_manager_with_cache(WRITE_BUFFERS_PER_PROCESS, False, blocks)


def database_options() -> Options:
    """Options for a database, and for families with few rows."""
    blocks, write_buffers = _shared_memory()
    table = BlockBasedOptions()
    table.set_block_cache(blocks)
    table.set_bloom_filter(10, False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_manager(write_buffers)
    # Many small databases share one process: RocksDB's 1 MB per write buffer would be mostly empty.
    options.set_arena_block_size(128 << 10)
    # Kafka Streams compacts universally, for it writes each update. Here a commit writes each key once, so writing is
    # rare compared with reading: levels have fewer files to look into, need a tenth more disk instead of double, and
    # never stall for one compaction of everything.
    options.set_compaction_style(DBCompactionStyle.level())
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(DBCompressionType.lz4())
    # Bounds what a killed process leaves to be replayed.
    options.set_max_total_wal_size(64 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    return options


def store_options() -> Options:
    """Options for the family of a store. Most keys that are looked up are on disk or nowhere, yet each unflushed
    memtable is searched first: a Bloom filter over it saves half of the cost of a look-up."""
    options = database_options()
    options.set_write_buffer_size(_MEMTABLE)
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(_MEMTABLE_BLOOM_SHARE)
    # A restore leaves up to 48 files to be merged (bulk_load.py): commits are not to wait for that.
    options.set_level_zero_slowdown_writes_trigger(64)
    options.set_level_zero_stop_writes_trigger(96)
    return options
