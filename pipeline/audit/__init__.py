"""``penstock audit``: what Spark computes from the same records, compared with the live application's stores."""
