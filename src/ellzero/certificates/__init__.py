"""What is proved after the fact: lower bounds, screening, branch and bound."""

from .beats import Beats, beats
from .certificate import Certificate, CertificateStatus
from .certify import certify
from .search import Progress

__all__ = ["Beats", "Certificate", "CertificateStatus", "Progress", "beats", "certify"]
