"""Why a program became the kernels that it became, as one page of HTML.

`explain_graph` compiles a program once more and keeps what explains the choice, `page_of` writes
the page.
"""

from mgn.explain.explanation import Explanation as Explanation
from mgn.explain.explanation import explain_graph as explain_graph
from mgn.explain.page import page_of as page_of
