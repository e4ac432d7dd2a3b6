"""How the sheets of docs/pictures are written: small files."""

from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"


def save(figure: Figure, out: Path) -> None:
    """Write ``figure`` to a PNG file and say how large it became."""
    figure.subplots_adjust(0, 0, 1, 1, 0.02, 0.02)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)
    # A palette holds the grey values and a few colours as well, in less than half the bytes.
    Image.open(out).convert("RGB").quantize(96, kmeans=1).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")
