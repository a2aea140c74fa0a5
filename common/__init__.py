"""Words that every other folder shares: records, ids, serdes, errors, configuration. Imports nothing of ours."""
