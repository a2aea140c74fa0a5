"""The archive: topics as Parquet files on object storage, whose manifests say exactly which offsets they hold."""
