"""What is proved after the fact: lower bounds, screening, branch and bound."""

from .branch_and_bound import Progress
from .certificate import Certificate, CertificateStatus, certify

__all__ = ["Certificate", "CertificateStatus", "Progress", "certify"]
