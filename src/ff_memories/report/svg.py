"""Embed figures in a page: SVGs with unique ids, no scripts and an accessible name."""

import re
from xml.etree import ElementTree

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_REFERENCE = re.compile(r"url\(\s*['\"]?#([^'\")]+)['\"]?\s*\)")


def inline(source: str, name: str, label: str) -> str:
    """Return an SVG document as an element of a page, without its font, which the page embeds once (``font.face``).

    Args:
        source: the SVG file's text.
        name: the prefix of its ids.
        label: the description for screen readers.

    Raises ``ValueError`` if the source is not SVG.
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    try:
        root = ElementTree.fromstring(source)
    except ElementTree.ParseError as error:
        raise ValueError(f"not SVG: {error}") from None
    if root.tag != f"{{{SVG}}}svg":
        raise ValueError(f"not SVG: its root is {root.tag}")
    for parent in root.iter():
        for child in [c for c in parent if str(c.tag).endswith(("}script", "}foreignObject", "}style"))]:
            parent.remove(child)
    for element in root.iter():
        element.attrib.update({key: _prefixed(key, value, name) for key, value in element.attrib.items()})
        for key in [k for k in element.attrib if k.lower().startswith("on")]:
            del element.attrib[key]
        # Vega labels every shape as a separate graphic; screen readers should read the figure as one
        for key in ("role", "aria-label", "aria-roledescription"):
            element.attrib.pop(key, None)
    width, height = root.attrib.get("width"), root.attrib.get("height")
    if "viewBox" not in root.attrib and width and height:
        root.set("viewBox", f"0 0 {width.removesuffix('px')} {height.removesuffix('px')}")
    root.set("role", "img")
    root.set("aria-label", label)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _prefixed(key: str, value: str, name: str) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key in ("href", f"{{{XLINK}}}href") and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return _REFERENCE.sub(lambda found: f"url(#{name}-{found[1]})", value)
