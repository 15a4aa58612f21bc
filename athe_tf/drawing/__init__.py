"""Pages and pictures from code, without TensorFlow: what reports and analyses are drawn with.

| file | content |
|---|---|
| `markup.py`, `style.css` | HTML and SVG as nested function calls; the frame and the style sheet of a page |
| `plot.py`, `charts.py` | SVG charts with captions and legends |
| `figures.py`, `files.py` | what notebooks show; charts as SVG and PDF files |
| `png.py` | images and figures as PNG |
"""
