"""The site that `make docs` builds: Sphinx with MyST.

Guides are the Markdown files of this folder. The pages of the API and of the recipes are written by
`site_pages.py` when the site is built, from docstrings and from the headers of `configs/`.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from athe_tf.version import __version__ as VERSION  # noqa: E402

project = "athe_tf"
author = "athe_tf developers"
release = version = VERSION
extensions = ["myst_nb", "sphinx_copybutton", "site_pages"]
exclude_patterns = ["tutorials"]
html_theme = "furo"
html_title = f"athe_tf {VERSION}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

# Anchors of all headings, so that links such as `evaluation.md#sanity-checks` are checked.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
# Notebooks keep the output that they were committed with; the tests execute them.
nb_execution_mode = "off"
nb_merge_streams = True
copybutton_exclude = ".linenos, .gp, .go"
suppress_warnings = ["myst.header"]
