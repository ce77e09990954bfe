"""The headers that TileLang's generated C needs: reading all of TileLang's takes most of the time of a compilation."""

from __future__ import annotations

import re

HEADER = re.compile(r"^#include <tl_templates/cpp/common\.h>\s*$", re.MULTILINE)
"""What generated C begins with."""
VECTORS = re.compile(r"(float|double|half|u?char|u?short|u?int|u?long|u?int(8|16|32|64)_t|bool)(2|3|4|8|16|32|64)")
"""The names of TileLang's vector types."""
_WHOLE = "#include <tl_templates/cpp/common.h>\n"
_SMALL = "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n"
"""What most kernels need, at a fifth of the time to compile."""
_STANDARD = {_WHOLE: "-std=c++17", _SMALL: "-std=c++14"}
"""Below C++17, math.h comes without the special functions, which take longer to read than all of it."""
_TYPES = re.compile(rf"\b(half|{VECTORS.pattern})\b")


def needed_headers(text: str) -> str:
    """Return the lines that include what C without its own includes needs: TileLang's header for its types."""
    return _WHOLE if _TYPES.search(text) else _SMALL


def standard_for(source: str) -> str:
    """Return the compiler's flag for the C++ standard of a source that begins with `needed_headers`."""
    return next(flag for headers, flag in _STANDARD.items() if source.startswith(headers))
