"""The address of a listener as users write it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

PORT_MAX = 65535


@dataclass(frozen=True)
class Address:
    """Where to listen. `host`: a name or an address, without the brackets of IPv6."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> Address:
        """Returns the address that the text HOST:PORT names. A host of IPv6 stands in brackets. Raises ValueError."""
        host, colon, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        if not colon or not bare or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
            raise ValueError("is not an address: write HOST:PORT, such as 127.0.0.1:9464, 0.0.0.0:9464 or [::]:9464")
        if (":" in bare) != (host != bare):
            raise ValueError("an address of IPv6 stands in brackets, such as [::1]:9464, and nothing else does")
        return Address(bare, int(port))

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
