"""The types that all other folders share: records, ids, serdes, errors, configuration. Imports no other folder."""
