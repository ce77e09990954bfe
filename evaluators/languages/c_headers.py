"""The headers that TileLang's generated C needs: reading all of TileLang's takes most of the time of a compilation."""

from __future__ import annotations

import re

HEADER = re.compile(r"^#include <tl_templates/cpp/common\.h>\s*$", re.MULTILINE)
"""The header that generated C begins with."""
VECTORS = re.compile(r"(float|double|half|u?char|u?short|u?int|u?long|u?int(8|16|32|64)_t|bool)(2|3|4|8|16|32|64)")
"""The names of TileLang's vector types."""
_WHOLE = "#include <tl_templates/cpp/common.h>\n"
_SMALL = "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n"
"""Headers that most kernels need, which compile five times as fast."""
_VECTORS_ALONE = f"#define HALF_HALF_HPP\nnamespace half_float {{ struct half; }}\n{_SMALL}{_WHOLE}"
"""TileLang's vector types without its type for half precision, which takes four fifths of the time to read: the macro
says that it was read already, and nothing that is compiled needs more of it than its name."""
_STANDARD = {_WHOLE: "-std=c++17", _VECTORS_ALONE: "-std=c++14", _SMALL: "-std=c++14"}
"""Below C++17, math.h comes without the special functions, which take longer to read than all of it."""
_HALF = re.compile(r"\bhalf\d*\b")
_VECTOR = re.compile(rf"\b({VECTORS.pattern})\b")


def needed_headers(text: str) -> str:
    """Return the lines that include what C without its own includes needs: TileLang's header for its types."""
    if _HALF.search(text):
        return _WHOLE
    return _VECTORS_ALONE if _VECTOR.search(text) else _SMALL


def standard_for(source: str) -> str:
    """Return the compiler's flag for the C++ standard of a source that begins with `needed_headers`."""
    return next(flag for headers, flag in _STANDARD.items() if source.startswith(headers))
