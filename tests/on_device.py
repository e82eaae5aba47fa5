"""Where tests of devices run: on an accelerator where torch sees one; elsewhere torch on the host plays it."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; the extra `torch` brings it")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def there(a, dtype=None):
    """The numbers on the device."""
    return torch.tensor(a, dtype=dtype, device=DEVICE)
