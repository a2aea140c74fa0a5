"""Pictures of the page, beside those that are kept in ``baselines/``: ``WRITE_PICTURES=1`` keeps new ones.

Browsers of other versions, and other fonts, draw letters otherwise: ``made-with.json`` says with which ones the kept
pictures were made, and only these are compared. The browser itself compares, so that no library for images is needed.
"""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64encode
from pathlib import Path

from playwright.sync_api import Browser

BASELINES = Path(__file__).parent / "baselines"
_FONTS = Path("/usr/share/fonts/truetype/dejavu")
_MADE_WITH = BASELINES / "made-with.json"
MOST_DIFFERING = 0.001
"""Share of the pixels that may differ."""
_COMPARE = """async ([one, other]) => {
    const pixels = async (png) => {
        const image = await createImageBitmap(await (await fetch("data:image/png;base64," + png)).blob());
        const canvas = new OffscreenCanvas(image.width, image.height);
        const drawn = canvas.getContext("2d");
        drawn.drawImage(image, 0, 0);
        return drawn.getImageData(0, 0, image.width, image.height);
    };
    const [before, now] = [await pixels(one), await pixels(other)];
    if (before.width !== now.width || before.height !== now.height) return 1;
    let differing = 0;
    for (let at = 0; at < now.data.length; at += 4) {
        const far = (channel) => Math.abs(before.data[at + channel] - now.data[at + channel]) > 32;
        if (far(0) || far(1) || far(2)) differing += 1;
    }
    return differing / (now.width * now.height);
}"""


def surroundings(browser: Browser) -> dict[str, str]:
    """Returns the version of the browser, and a digest of each font."""
    fonts = sorted(_FONTS.glob("DejaVuSans*.ttf"))
    used = [font for font in fonts if font.stem in ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono")]
    digests = {font.name: hashlib.sha256(font.read_bytes()).hexdigest()[:16] for font in used}
    return {"browser": browser.version, **digests}


def kept(browser: Browser, name: str, picture: bytes) -> bytes | None:
    """Returns the picture that is kept under ``name``; None if it cannot be compared with those of this browser."""
    file, here = BASELINES / f"{name}.png", surroundings(browser)
    if os.environ.get("WRITE_PICTURES"):
        file.write_bytes(picture)
        _MADE_WITH.write_text(json.dumps(here, indent=1) + "\n")
    if json.loads(_MADE_WITH.read_text()) == here:
        return file.read_bytes()
    print(f"{name} is not compared: the kept picture was made with another browser, or other fonts, than {here}")
    return None


def difference(browser: Browser, one: bytes, other: bytes) -> float:
    """Returns the share of pixels in which two pictures differ; 1 if their sizes do."""
    with browser.new_page() as blank:
        share: float = blank.evaluate(_COMPARE, [b64encode(each).decode() for each in (one, other)])
    return share
