"""Pages and pictures from code, without TensorFlow: what reports and analyses are drawn with.

| file | content |
|---|---|
| `markup.py` | HTML and SVG as nested function calls, tables |
| `page.py`, `style.css` | the frame of a page, its sections and its style sheet |
| `plot.py`, `charts.py` | SVG charts with captions and legends |
| `png.py` | images and figures as PNG |
"""
