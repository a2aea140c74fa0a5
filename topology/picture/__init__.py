"""Pictures of topologies: where each part is placed, drawn as SVG, and the same parts as a Mermaid diagram.

``diagram.py`` has the parts, ``picture.py`` their positions. ``layered.py`` places boxes of any meaning in layers.
"""
