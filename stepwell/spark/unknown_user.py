"""What Spark's JVM needs to run as a user whom the machine does not know, or whose home cannot be written.

Java takes name and home from the machine's list of users, and not from the environment. Without an entry both are "?": Ivy, which Spark always
prepares, refuses such a folder, and Hadoop's login fails. In a container both are usual, because platforms choose the id of the user.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

from base.user_folders import own_scratch, user_name

IVY_KEY = "spark.jars.ivy"


def java_home_of_user() -> Path | None:
    """The home that Java would find; None if it finds none that can be written."""
    try:
        found = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None
    return found if found.is_absolute() and os.access(found, os.W_OK) else None


def settings_without_home() -> dict[str, str]:
    """Settings of Spark, in place of the user's home; none if there is one."""
    return {} if java_home_of_user() is not None else {IVY_KEY: str(own_scratch() / "ivy")}


def java_options_without_home() -> str:
    """Options of Java; empty if there is a home."""
    if java_home_of_user() is not None:
        return ""
    return f"-Duser.home={own_scratch()}" + ("" if user_name() is not None else f" -Duser.name={login_name()}")


def login_name() -> str:
    """The name that a user without one has in Spark."""
    return f"uid{os.getuid()}"


def log_in(jvm: Any) -> None:
    """Makes this user the one that Hadoop believes to run the JVM. Called before anything asks for it."""
    groups = getattr(jvm, "org.apache.hadoop.security.UserGroupInformation")
    groups.setLoginUser(groups.createRemoteUser(login_name()))
