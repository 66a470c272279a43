"""All settings of the control plane: read once from the environment, typed and validated.

docs/operator-guide.md lists them all.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from compute_agent.disk_formats.formats import FORMATS
from portal.environment import (
    chosen,
    database,
    decimal,
    env,
    integer,
    ipv4_range,
    networks,
    one_of,
    patterns,
    ports,
    rates,
    seconds_by_name,
    secret_keys,
    web_address,
    whole_range,
)
from provisioning.scheduler.options import options_of
from provisioning.scheduler.plugins import SchedulerSettingError

BASE_DIR = Path(__file__).resolve().parent.parent

DATA_DIR = Path(env.str("NOVELLA_DATA", default=str(BASE_DIR / "var"))).resolve()
"""Data directory of all parts of Novella on this machine."""
PORTAL_DIR = DATA_DIR / "portal"
"""Data of web, workers and commands; bin/up and this machine's agent have directories next to it."""
RUN_DIR = PORTAL_DIR / "run"
"""Wake-up sockets and process files."""
for _name in ("db.sqlite3", "secrets"):  # new keys could not decrypt existing data
    if (DATA_DIR / _name).exists() and not (PORTAL_DIR / _name).exists():
        message = f"{DATA_DIR} is of an older version: move {_name} into {PORTAL_DIR}, or let bin/up do it."
        raise ImproperlyConfigured(message)
ROLE = env.str("NOVELLA_ROLE", default="command")
"""``web``, ``worker`` or ``command``; determines how database connections are kept."""
if ROLE not in {"web", "worker", "command"}:
    raise ImproperlyConfigured(f"NOVELLA_ROLE is {ROLE!r}; it must be web, worker or command.")

SECRET_KEY, *SECRET_KEY_FALLBACKS = secret_keys("NOVELLA_SECRET_KEY", PORTAL_DIR / "secrets" / "secret_key")
"""The first one signs, all are accepted."""
BUS_KEY, *BUS_KEY_FALLBACKS = secret_keys("NOVELLA_BUS_KEY", PORTAL_DIR / "secrets" / "bus_key")
"""Keys that sign messages of the queue, like ``SECRET_KEY``."""
TOKEN_KEYS_DIR = Path(env.str("NOVELLA_TOKEN_KEYS_DIR", default=str(PORTAL_DIR / "secrets" / "token-keys")))
"""Keys that encrypt tokens; the newest one issues, all of them verify."""
CREDENTIAL_KEYS_DIR = Path(
    env.str("NOVELLA_CREDENTIAL_KEYS_DIR", default=str(PORTAL_DIR / "secrets" / "credential-keys"))
)
"""Keys that encrypt users' credentials; the newest one encrypts, all of them decrypt."""

POLICY_FILE = Path(env.str("NOVELLA_POLICY_FILE", default=str(DATA_DIR / "policy.yaml")))
"""Rules that an operator changed, in YAML; docs/policy.md lists all of them."""

DEBUG = env.bool("NOVELLA_DEBUG", default=False)
PORT = integer("NOVELLA_PORT", 8000, 1, 65535)
PUBLIC_URL = web_address("NOVELLA_PUBLIC_URL").rstrip("/")
"""The address that clients use, for the catalog and links; if empty, the address of each request."""
ALLOWED_HOSTS = env.list("NOVELLA_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("NOVELLA_TRUSTED_ORIGINS", default=[])
SECURE_COOKIES = env.bool("NOVELLA_SECURE_COOKIES", default=PUBLIC_URL.startswith("https://"))
SECURE_HSTS_SECONDS = integer(
    "NOVELLA_HSTS_SECONDS", 2_592_000 if PUBLIC_URL.startswith("https://") else 0, 0, 63_072_000
)
"""Seconds for which browsers use only https (RFC 6797); 0: the header is not sent."""
REGION = env.str("NOVELLA_REGION", default="RegionOne")

MOST_WEB_PROCESSES = 64
WEB_PROCESSES = integer("NOVELLA_WEB_PROCESSES", min(len(os.sched_getaffinity(0)), 4), 1, MOST_WEB_PROCESSES)
"""Processes that serve one port."""

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.forms",
    "portal.ops.apps.OpsConfig",
    "portal.ops.apps.NovellaAdminConfig",
    "rest_framework",
    "django_q",
    "django_htmx",
    "provisioning.events",
    "provisioning.jobs",
    "provisioning.notifications",
    "provisioning.identity",
    "provisioning.quotas",
    "provisioning.ec2",
    "provisioning.hosts",
    "provisioning.images",
    "provisioning.metadefs",
    "provisioning.network",
    "provisioning.volumes",
    "provisioning.compute",
    "provisioning.doctor",
    "provisioning",
    "portal.api",
    "portal.dashboard",
]
_FACES = (
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.forms",
    "rest_framework",
    "django_htmx",
)
if ROLE == "worker":  # no web packages: its processes took 115 MiB (PSS) after launches instead of 140
    INSTALLED_APPS = [app for app in INSTALLED_APPS if app not in _FACES and not app.startswith("portal.")]

MIDDLEWARE = [
    "portal.common.request_id.RequestIdMiddleware",
    "portal.web.compression.CompressionMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "portal.common.security_headers.SecurityHeadersMiddleware",
    "portal.web.static_files.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "portal.common.sign_in.SignInMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
"""SignInMiddleware is Django's AuthenticationMiddleware with the token in the session: no user without a valid
token.
"""

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "portal.common.template_loaders.LeanFilesystemLoader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


DATABASES = {
    "default": database(
        "NOVELLA_DATABASE_URL", PORTAL_DIR, ROLE, integer("NOVELLA_SQLITE_TIMEOUT", 20, 1, 600), WEB_PROCESSES
    ),
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES: dict[str, Any] = {
    "default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
    "sign_in": {
        "BACKEND": "provisioning.common.machine_cache.MachineCache",
        "LOCATION": str(RUN_DIR / "sign-in.sqlite3"),
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    },
}
"""``sign_in`` counts wrong passwords, in a file of this machine unless several machines share a server."""
CACHES["lockouts"] = {
    "BACKEND": "provisioning.common.machine_cache.MachineCache",
    "LOCATION": str(RUN_DIR / "lockouts.sqlite3"),
    "OPTIONS": {"MAX_ENTRIES": 1_000_000},
}
"""``lockouts`` counts those of each user in a separate file, so that a flood of other names evicts none."""
CACHES["rates"] = {
    "BACKEND": "provisioning.common.machine_cache.MachineCache",
    "LOCATION": str(RUN_DIR / "rates.sqlite3"),
    "OPTIONS": {"MAX_ENTRIES": 100_000},
}
"""``rates`` counts requests, in a file of this machine."""
if env.str("NOVELLA_CACHE_URL", default=""):
    CACHES["sign_in"] = env.cache_url("NOVELLA_CACHE_URL")
if "LocMem" in CACHES["sign_in"]["BACKEND"]:
    CACHES["sign_in"]["OPTIONS"] = {"MAX_ENTRIES": 100_000}
elif "FileBased" in CACHES["sign_in"]["BACKEND"]:
    CACHES["sign_in"]["OPTIONS"] = {"MAX_ENTRIES": 20_000}

AUTH_USER_MODEL = "identity.User"
AUTHENTICATION_BACKENDS = ["portal.common.sign_in.OperatorBackend"]
SILENCED_SYSTEM_CHECKS = ["auth.W004"]
"""A user's name is unique only in its domain; OperatorBackend specifies the domain."""
PASSWORD_HASHERS = [
    "provisioning.identity.hashers.Argon2Hasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]
LOGIN_URL = "/auth/login/"
LOGIN_REDIRECT_URL = "/"
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
SESSION_COOKIE_NAME = "novella_session"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
CSRF_COOKIE_NAME = "novella_csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "portal.dashboard.errors.csrf_failure"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"

TOKEN_LIFETIME = integer("NOVELLA_TOKEN_LIFETIME", 86_400, 60, 31_536_000)
"""Seconds until a token expires."""
RECEIPT_LIFETIME = integer("NOVELLA_RECEIPT_LIFETIME", 300, 1, 86_400)
"""Seconds in which a user whose rules require several methods has to provide the next one."""
TRUST_REDELEGATIONS = integer("NOVELLA_TRUST_REDELEGATIONS", 3, 0, 100)
"""Maximum number of redelegations of a trust."""
LOCKOUT_ATTEMPTS = integer("NOVELLA_LOCKOUT_ATTEMPTS", 20, 0, 1_000_000)
"""Wrong passwords for one user, from all addresses, after which it is locked; 0: never."""
LOCKOUT_SECONDS = integer("NOVELLA_LOCKOUT_SECONDS", 900, 1, 31_536_000)
"""Seconds in which they are counted, and for which the user is locked."""
PASSWORD_MIN_LENGTH = integer("NOVELLA_PASSWORD_MIN_LENGTH", 8, 1, 1024)
PASSWORD_EXPIRES_DAYS = integer("NOVELLA_PASSWORD_EXPIRES_DAYS", 0, 0, 36_500)
"""0: never."""
PASSWORD_CHANGE_ON_FIRST_USE = env.bool("NOVELLA_PASSWORD_CHANGE_ON_FIRST_USE", default=False)
"""Whether a password set by another user must be changed before the first sign-in."""
RATE_LIMITS = rates(
    "NOVELLA_RATE_LIMITS",
    {
        "launches": (300, 60),
        "daily_launches": (20_000, 86_400),
        "writes": (1800, 60),
        "daily_writes": (100_000, 86_400),
        "searches": (600, 60),
        "dry_runs": (600, 60),
    },
)
"""Limits of one user (number, seconds): servers, servers per day, changes, changes per day, searches by pattern, dry
runs.
"""
TOTP = env.bool("NOVELLA_TOTP", default=False)
"""Whether passcodes of authenticator apps are accepted."""
IDENTITY_V2 = env.bool("NOVELLA_IDENTITY_V2", default=True)
"""Whether the Identity API v2.0 is served to old clients."""

LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "portal.common.formats"
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = Path(env.str("NOVELLA_STATIC_ROOT", default=str(PORTAL_DIR / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "portal.common.npm_finder.NpmFinder",
    "portal.common.bundles.BundleFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = DEBUG

DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576
"""Bytes of a request body that is not an image upload."""
DATA_UPLOAD_MAX_NUMBER_FILES = 0
"""No form uploads files."""

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["portal.api.common.rendering.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "portal.api.openapi.operations.OperationSchema",
    "DEFAULT_PARSER_CLASSES": ["portal.api.common.parsing.JSONParser"],
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Novella",
    "SCHEMA_PATH_PREFIX": "/",
    "SORT_OPERATIONS": False,
    "POSTPROCESSING_HOOKS": [],
}
"""Settings of the generated OpenAPI document."""

CHANNEL_LAYERS: dict[str, Any] = {}
"""Empty: pages are updated through the event log, which is durable."""

WORKERS = integer("NOVELLA_WORKERS", 2, 1, 64)
JOB_HELD = 420  # seconds for which a message is claimed: more than the longest job
Q_CLUSTER = {
    "name": "novella",
    "orm": "default",
    "broker_class": "provisioning.jobs.broker.Broker",
    "ALT_CLUSTERS": {},
    "workers": WORKERS,
    "queue_limit": WORKERS,
    "timeout": 120,
    "retry": JOB_HELD,
    "ack_failures": True,
    "max_attempts": 1,
    "save_limit": -1,
    "bulk": 1,
    "catch_up": False,
    "scheduler": False,
    "recycle": 5000,
    "guard_cycle": 0.5,
    "log_level": "WARNING",
}

LONG_JOBS = integer("NOVELLA_LONG_JOBS", 3, 1, 64)
"""Long jobs, such as image downloads, that a worker process runs in parallel to its other work; imports use at most all
but one of these threads.
"""

# Launch
MAX_SCHEDULE_ATTEMPTS = integer("NOVELLA_MAX_SCHEDULE_ATTEMPTS", 3, 1, 10)
SCHEDULER_DRIVER = env.str("NOVELLA_SCHEDULER_DRIVER", default="filter")
"""``filter``, ``chance``, ``availability-zone``, ``simple``, or the dotted path of a custom class."""
SCHEDULER_DEFAULT_ZONE = env.str("NOVELLA_SCHEDULER_DEFAULT_ZONE", default="")
"""The default zone of servers with the driver ``availability-zone``."""
SCHEDULER_FILTERS = [name.strip() for name in env.list("NOVELLA_SCHEDULER_FILTERS", default=["default"])]
"""Names and dotted paths of filters, in order; ``default`` stands for all of Novella's."""
SCHEDULER_WEIGHERS = [name.strip() for name in env.list("NOVELLA_SCHEDULER_WEIGHERS", default=["default"])]
SCHEDULER_PLACEMENT = env.str("NOVELLA_SCHEDULER_PLACEMENT", default="spread")
"""``spread`` or ``pack``: the default multipliers of memory, vCPUs and disk; other weighers have their own."""
SCHEDULER_RAM_WEIGHT = decimal("NOVELLA_SCHEDULER_RAM_WEIGHT")
SCHEDULER_CPU_WEIGHT = decimal("NOVELLA_SCHEDULER_CPU_WEIGHT")
SCHEDULER_DISK_WEIGHT = decimal("NOVELLA_SCHEDULER_DISK_WEIGHT")
SCHEDULER_IO_WEIGHT = decimal("NOVELLA_SCHEDULER_IO_WEIGHT")
SCHEDULER_SOFT_AFFINITY_WEIGHT = decimal("NOVELLA_SCHEDULER_SOFT_AFFINITY_WEIGHT")
SCHEDULER_SOFT_ANTI_AFFINITY_WEIGHT = decimal("NOVELLA_SCHEDULER_SOFT_ANTI_AFFINITY_WEIGHT")
SCHEDULER_BUILD_FAILURE_WEIGHT = decimal("NOVELLA_SCHEDULER_BUILD_FAILURE_WEIGHT")
SCHEDULER_IMAGE_CACHED_WEIGHT = decimal("NOVELLA_SCHEDULER_IMAGE_CACHED_WEIGHT")
SCHEDULER_MAX_INSTANCES_PER_HOST = integer("NOVELLA_SCHEDULER_MAX_INSTANCES_PER_HOST", 0, 0, 1_000_000)
"""Maximum number, unless the host's aggregates specify another; 0: unlimited."""
SCHEDULER_MAX_IO_OPS_PER_HOST = integer("NOVELLA_SCHEDULER_MAX_IO_OPS_PER_HOST", 0, 0, 1_000_000)
"""Maximum number of servers being built, copied or migrated, unless the host's aggregates specify another; 0:
unlimited.
"""
SCHEDULER_SUBSET_SIZE = integer("NOVELLA_SCHEDULER_SUBSET_SIZE", 1, 1, 100)
"""One of this many best hosts is chosen at random."""
try:
    options_of(sys.modules[__name__])  # reads the settings above that begin with SCHEDULER_
except SchedulerSettingError as error:
    raise ImproperlyConfigured(str(error)) from error
CPU_ALLOCATION_RATIO = env.float("NOVELLA_CPU_ALLOCATION_RATIO", default=4.0)
RAM_ALLOCATION_RATIO = env.float("NOVELLA_RAM_ALLOCATION_RATIO", default=1.0)
DISK_ALLOCATION_RATIO = env.float("NOVELLA_DISK_ALLOCATION_RATIO", default=1.0)
RESERVED_HOST_MEMORY_MB = integer("NOVELLA_RESERVED_HOST_MEMORY_MB", 512, 0, 10_000_000)
RESERVED_HOST_DISK_GB = integer("NOVELLA_RESERVED_HOST_DISK_GB", 0, 0, 10_000_000)
"""Defaults for new hosts; an operator can change those of each host in the admin."""
HOST_NETWORKS = networks("NOVELLA_HOST_NETWORKS")
"""Networks of the addresses that hosts use among themselves; if empty, a host's first address, or that of its link."""
HEARTBEAT_INTERVAL = integer("NOVELLA_HEARTBEAT_INTERVAL", 10, 1, 600)
HOST_DOWN_AFTER = integer("NOVELLA_HOST_DOWN_AFTER", 35, 2, 3600)
"""Seconds without a heartbeat after which a host gets no new instances."""
VNI_FIRST, VNI_LAST = whole_range("NOVELLA_VNI_RANGE", (1000, 16_777_215), 1, 16_777_215)
"""VXLAN network identifiers for new networks."""
PHYSICAL_MTU = integer("NOVELLA_PHYSICAL_MTU", 1500, 1330, 9216)
"""Bytes of a packet between hosts; the MTU of a VXLAN network is 50 less."""
ADDRESS_HOLD = integer("NOVELLA_ADDRESS_HOLD", 60, 0, 86_400)
"""Seconds for which a released address is allocated only on explicit request."""
PROJECT_NETWORK_RANGE = ipv4_range("NOVELLA_PROJECT_NETWORK_RANGE", "10.50.0.0/24")
"""Range of an auto-allocated topology's network, without a default subnet pool."""
AUTO_FLOATING_IP = env.str("NOVELLA_AUTO_FLOATING_IP", default="").strip()
"""Name or id of the external network from which new servers get a floating IP; empty: none."""
AUDIT_INTERVAL = integer("NOVELLA_AUDIT_INTERVAL", 60, 5, 3600)
INSTANCE_USAGE_AUDIT_PERIOD = env.str("NOVELLA_INSTANCE_USAGE_AUDIT_PERIOD", default="month")
"""``hour``, ``day``, ``month`` or ``year``, optionally with ``@`` and the offset of its start in minutes, hours, days
or months.
"""
if not re.fullmatch(
    r"hour(@[1-5]?\d)?|day(@(1?\d|2[0-3]))?|month(@([1-9]|1\d|2[0-8]))?|year(@([1-9]|1[0-2]))?",
    INSTANCE_USAGE_AUDIT_PERIOD,
):
    msg = (
        f"NOVELLA_INSTANCE_USAGE_AUDIT_PERIOD is {INSTANCE_USAGE_AUDIT_PERIOD!r}; it must be hour, day, month or year,"
        " and may name where it begins: hour@30, day@18, month@15, year@3."
    )
    raise ImproperlyConfigured(msg)
CONSOLE_TOKEN_TTL = integer("NOVELLA_CONSOLE_TOKEN_TTL", 600, 10, 86_400)
"""Seconds until an unused console address expires."""
CONSOLE_IDLE_TIMEOUT = integer("NOVELLA_CONSOLE_IDLE_TIMEOUT", 1800, 0, 86_400)
"""Seconds of inactivity after which a console is closed; 0: never."""
CONSOLES_PER_USER = integer("NOVELLA_CONSOLES_PER_USER", 16, 1, 10_000)
"""Consoles that one user may have open simultaneously, on each web machine."""
TUNNELS_PER_USER = integer("NOVELLA_TUNNELS_PER_USER", 32, 1, 100_000)
"""Tunnels to guests that one user may have open simultaneously, on each web machine."""
TUNNEL_IDLE_TIMEOUT = integer("NOVELLA_TUNNEL_IDLE_TIMEOUT", 3600, 0, 604_800)
"""Seconds of inactivity after which a tunnel is closed; 0: never."""
SOCKETS_PER_USER = integer("NOVELLA_SOCKETS_PER_USER", 50, 1, 100_000)
"""WebSockets that one user may have open simultaneously, on each web machine: live pages, consoles, scripts."""
SOCKETS_PER_SESSION = integer("NOVELLA_SOCKETS_PER_SESSION", 20, 1, 100_000)
"""The limit of one session: one browser, one token or one application credential."""
CONNECTIONS_PER_ADDRESS = integer("NOVELLA_CONNECTIONS_PER_ADDRESS", 4096, 1, 1_000_000)
"""Simultaneous connections of one address to each web process."""
UNSENT_PER_ADDRESS = integer("NOVELLA_UNSENT_PER_ADDRESS", 64 << 20, 1 << 20, 1 << 40)
"""Bytes of responses buffered in each web process for the clients at one address."""
READ_TIMEOUT = integer("NOVELLA_READ_TIMEOUT", 60, 1, 86_400)
"""Seconds in which a client must read 16 KiB of its response."""
CAST_TIMEOUT = integer("NOVELLA_CAST_TIMEOUT", 60, 1, 86_400)
"""Seconds without progress after which the job of an instance is cast again."""
POWER_TIMEOUT = integer("NOVELLA_POWER_TIMEOUT", 180, 1, 86_400)
"""Timeout in seconds of power actions, and of all actions that neither create nor send a disk."""
TASK_TIMEOUTS = seconds_by_name("NOVELLA_TASK_TIMEOUTS", 1, 2_592_000)
"""Timeouts in seconds of single task states, overriding the other settings."""
VOLUME_TIMEOUTS = seconds_by_name("NOVELLA_VOLUME_TIMEOUTS", 1, 2_592_000)
"""Timeouts in seconds for a host's reports about a volume, by the volume's status, overriding the defaults."""
BUILD_TIMEOUT = integer("NOVELLA_BUILD_TIMEOUT", 600, 5, 86_400)
"""Seconds that a task state of a launch may last before the reaper intervenes."""
CROSS_AZ_ATTACH = env.bool("NOVELLA_CROSS_AZ_ATTACH", default=True)
"""Whether servers may use volumes of another availability zone."""
HOST_QUEUE_TIMEOUT = integer("NOVELLA_HOST_QUEUE_TIMEOUT", 1800, 5, 604_800)
"""Seconds that a command may wait in the queue of a host that is up."""
PROGRESS_LIMIT = integer("NOVELLA_PROGRESS_LIMIT", 0, 0, 1000)
"""Maximum total duration of a command that makes progress, as a multiple of its timeout; 0: no limit."""
CLOCK_DIFFERENCE_LIMIT = integer("NOVELLA_CLOCK_DIFFERENCE_LIMIT", 60, 1, 86_400)
"""Seconds by which a host's clock may differ from the portal's before a warning."""
SHELVED_OFFLOAD_TIME = integer("NOVELLA_SHELVED_OFFLOAD_TIME", 0, -1, 31_536_000)
"""Seconds after which a shelved server is offloaded; 0: immediately, -1: never."""
SNAPSHOT_TIMEOUT = integer("NOVELLA_SNAPSHOT_TIMEOUT", 3600, 5, 86_400)
"""Seconds in which a host must send a server's disk as an image."""
RECLAIM_INSTANCE_INTERVAL = integer("NOVELLA_RECLAIM_INSTANCE_INTERVAL", 0, 0, 31_536_000)
"""Seconds for which a deleted server can be restored; 0: it is deleted immediately."""
RESIZE_CONFIRM_WINDOW = integer("NOVELLA_RESIZE_CONFIRM_WINDOW", 0, 0, 31_536_000)
"""Seconds after which a resize is confirmed automatically; 0: never."""
DELETE_TIMEOUT = integer("NOVELLA_DELETE_TIMEOUT", 300, 5, 86_400)
DOCTOR_INTERVAL = integer("NOVELLA_DOCTOR_INTERVAL", 3600, 0, 2_592_000)
"""Seconds between scheduled examinations of the whole cloud; 0: none."""
DOCTOR_REPAIR = env.bool("NOVELLA_DOCTOR_REPAIR", default=False)
"""Whether scheduled examinations repair their findings."""
EVENT_RETENTION = integer("NOVELLA_EVENT_RETENTION", 3600, 60, 604_800)
"""Seconds for which events are kept for reconnecting pages."""
RETENTION_DAYS = integer("NOVELLA_RETENTION_DAYS", 90, 0, 36_500)
"""Days for which deleted servers and images, the history of servers and similar records are kept; 0: forever."""
_AUDITED = {"hour": 1, "day": 1, "month": 31, "year": 366}[INSTANCE_USAGE_AUDIT_PERIOD.partition("@")[0]]
if 0 < RETENTION_DAYS <= _AUDITED:
    msg = (
        f"NOVELLA_RETENTION_DAYS is {RETENTION_DAYS}; it must be 0 or more than {_AUDITED}, so that the usage audit"
        f" of a {INSTANCE_USAGE_AUDIT_PERIOD.partition('@')[0]} finds the servers that were deleted in it."
    )
    raise ImproperlyConfigured(msg)
ENABLE_INSTANCE_PASSWORD = env.bool("NOVELLA_ENABLE_INSTANCE_PASSWORD", default=True)
"""Whether a launch or a rebuild by the API without a password generates one, and returns it once."""
MAX_IMAGE_SIZE = integer("NOVELLA_MAX_IMAGE_SIZE", 1 << 40, 1 << 20, 1 << 50)
"""Maximum bytes of an image."""
UPLOADS_AT_ONCE = integer("NOVELLA_UPLOADS_AT_ONCE", 8, 1, 64)
"""Simultaneous image uploads of one user, and of one project, on each web machine."""
UPLOAD_LEAST_RATE = integer("NOVELLA_UPLOAD_LEAST_RATE", 1024, 0, 1 << 30)
"""Minimum rate of an upload in bytes per second."""
UPLOAD_TIMEOUT = integer("NOVELLA_UPLOAD_TIMEOUT", 21_600, 60, 604_800)
"""Timeout in seconds of an upload."""
IMAGE_DIR = Path(env.str("NOVELLA_IMAGE_DIR", default=str(PORTAL_DIR / "images")))
IMAGE_STORE_ID = env.str("NOVELLA_IMAGE_STORE_ID", default="local")
"""The name of the only store in the Image API."""
IMAGE_DISK_FORMATS = chosen("NOVELLA_IMAGE_DISK_FORMATS", tuple(FORMATS), ("raw", "qcow2"))
"""Accepted image formats; images of servers and volumes can always be created in two of them."""
IMPORT_METHODS = chosen("NOVELLA_IMPORT_METHODS", ("glance-direct", "web-download"))
IMPORT_ALLOWED_PORTS = ports("NOVELLA_IMPORT_PORTS", ["80", "443"])
IMPORT_ALLOWED_HOSTS = [name.lower() for name in env.list("NOVELLA_IMPORT_ALLOWED_HOSTS", default=[])]
"""Hosts from which images may be downloaded, all if empty; ``.example.org`` includes all its subdomains."""
IMPORT_DENIED_HOSTS = [name.lower() for name in env.list("NOVELLA_IMPORT_DENIED_HOSTS", default=[])]
IMPORT_ALLOWED_NETWORKS = networks("NOVELLA_IMPORT_ALLOWED_NETWORKS")
"""Internal networks from which images may be downloaded."""
IMPORT_TIMEOUT = integer("NOVELLA_IMPORT_TIMEOUT", 7200, 1, 604_800)
"""Timeout in seconds of an image download."""
STAGING_TIMEOUT = integer("NOVELLA_STAGING_TIMEOUT", 86_400, 60, 2_592_000)
"""Seconds for which staged data is kept before its import."""
TASK_RETENTION = integer("NOVELLA_IMAGE_TASK_RETENTION", 172_800, 60, 31_536_000)
"""Seconds that the record of a finished import is kept."""
IMAGE_STORAGE_QUOTA = integer("NOVELLA_IMAGE_STORAGE_QUOTA", 50 << 30, 0, 1 << 50)
"""Bytes of images that a project without a quota image_size_total may store; 0: unlimited."""
IMPORTS_AT_ONCE = integer("NOVELLA_IMPORTS_AT_ONCE", 2, 1, 64)
"""Simultaneous image imports of one project; others wait."""
IMAGE_MEMBER_LIMIT = integer("NOVELLA_IMAGE_MEMBER_LIMIT", 128, 0, 10_000)
"""Maximum number of projects that an image is shared with."""
IMAGE_PROPERTY_PROTECTIONS = env.str("NOVELLA_IMAGE_PROPERTY_PROTECTIONS", default="")
"""File (TOML or JSON) with the roles that may create, read, update and delete properties; reloaded when it changes."""

# Backups of volumes
BACKUP_STORE = one_of("NOVELLA_BACKUP_STORE", "folder", ("folder", "s3"))
"""The store of new backups; existing backups in the other store can still be read."""
BACKUP_DIR = Path(env.str("NOVELLA_BACKUP_DIR", default=str(PORTAL_DIR / "volume-backups")))
BACKUP_S3_ENDPOINT = web_address("NOVELLA_BACKUP_S3_ENDPOINT")
"""Empty: the endpoint of AWS."""
BACKUP_S3_BUCKET = env.str("NOVELLA_BACKUP_S3_BUCKET", default="")
BACKUP_S3_PREFIX = env.str("NOVELLA_BACKUP_S3_PREFIX", default="").strip("/")
"""Prefix of object names, so that several clouds can share a bucket."""
BACKUP_S3_REGION = env.str("NOVELLA_BACKUP_S3_REGION", default="us-east-1")
BACKUP_S3_ACCESS_KEY = env.str("NOVELLA_BACKUP_S3_ACCESS_KEY", default="")
BACKUP_S3_SECRET_KEY = env.str("NOVELLA_BACKUP_S3_SECRET_KEY", default="")
if BACKUP_STORE == "s3" and not (BACKUP_S3_BUCKET and BACKUP_S3_ACCESS_KEY and BACKUP_S3_SECRET_KEY):
    msg = (
        "NOVELLA_BACKUP_STORE is 's3'; it needs NOVELLA_BACKUP_S3_BUCKET, NOVELLA_BACKUP_S3_ACCESS_KEY and"
        " NOVELLA_BACKUP_S3_SECRET_KEY, too."
    )
    raise ImproperlyConfigured(msg)

# Notifications and metrics
NOTIFICATIONS = patterns("NOVELLA_NOTIFICATIONS", ["all", "-instance.update"])
"""Types of notifications to send, with ``*`` as wildcard; ``-`` excludes types, ``none`` all."""
NOTIFICATION_WEBHOOK = web_address("NOVELLA_NOTIFICATION_WEBHOOK")
"""The URL that notifications are posted to; empty: none."""
NOTIFICATION_WEBHOOK_SECRET = env.str("NOVELLA_NOTIFICATION_WEBHOOK_SECRET", default="")
"""Key that signs the posted notifications; empty: they are not signed."""
NOTIFICATION_WEBHOOK_TIMEOUT = integer("NOVELLA_NOTIFICATION_WEBHOOK_TIMEOUT", 10, 1, 60)
"""Seconds to wait for the webhook's response."""
NOTIFICATION_RETENTION = integer("NOVELLA_NOTIFICATION_RETENTION", 86_400, 60, 2_592_000)
"""Seconds for which a notification is kept while the webhook does not accept it."""
METRICS_TOKEN = env.str("NOVELLA_METRICS_TOKEN", default="")
"""Token with which Prometheus may read /metrics; empty: only operators can."""

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request": {"()": "provisioning.common.tracing.RequestIdFilter"},
        "health": {"()": "portal.common.log_filters.HealthCheckFilter"},
    },
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request"]}},
    "root": {"handlers": ["console"], "level": env.str("NOVELLA_LOG_LEVEL", default="INFO")},
    "loggers": {
        "django-q": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
        "stevedore": {"level": "CRITICAL"},  # it warns about checks by remote servers, which are not installed
        "oslo_policy": {"level": "CRITICAL"},  # errors in the rules are reported by provisioning.identity.policy
        "django.request": {"level": "ERROR", "filters": ["health"]},
        "asyncio": {"level": "WARNING"},
    },
}
