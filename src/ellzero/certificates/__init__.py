"""What is proved after the fact: lower bounds, screening, branch and bound."""

from .certificate import Certificate, CertificateStatus
from .certify import certify
from .search import Progress

__all__ = ["Certificate", "CertificateStatus", "Progress", "certify"]
