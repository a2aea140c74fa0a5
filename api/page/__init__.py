"""The page that shows an application in a browser: its files, its live stream, and the documents that it asks for."""
