"""``python -m mixseg``, where the command ``mixseg`` is not on the path."""

from mixseg.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
