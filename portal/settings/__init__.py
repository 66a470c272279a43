"""Django's settings, and the settings of all parts of the portal.

Each part declares its own settings in ``settings.py``; docs/settings.md lists them all.
"""

import sys
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from portal.settings.api import *
from portal.settings.data import *
from portal.settings.web import *
from provisioning.catalogue.settings import *
from provisioning.common.settings import *
from provisioning.compute.settings import *
from provisioning.cpus.settings import *
from provisioning.doctor.settings import *
from provisioning.drains.settings import *
from provisioning.hosts.settings import *
from provisioning.identity.settings import *
from provisioning.images.settings import *
from provisioning.jobs.settings import *
from provisioning.launches.settings import *
from provisioning.measures.settings import *
from provisioning.network.settings import *
from provisioning.notifications.settings import *
from provisioning.scheduler.options import options_of
from provisioning.scheduler.plugins import SchedulerSettingError
from provisioning.scheduler.settings import *
from provisioning.volumes.settings import *

try:
    options_of(sys.modules[__name__])  # reads the settings that begin with SCHEDULER_
except SchedulerSettingError as error:
    raise ImproperlyConfigured(str(error)) from error

SECRET_KEY: str = ""
BUS_KEY: str = ""
SECRET_KEY_FALLBACKS: list[str] = []
BUS_KEY_FALLBACKS: list[str] = []
"""``provisioning.identity.encryption.signing_keys`` sets these four when Django has loaded the apps."""

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
    "provisioning.cpus",
    "provisioning.images",
    "provisioning.catalogue",
    "provisioning.metadefs",
    "provisioning.network",
    "provisioning.volumes",
    "provisioning.compute",
    "provisioning.batches",
    "provisioning.drains",
    "provisioning.launches",
    "provisioning.starred",
    "provisioning.measures",
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
    "portal.common.http.request_id.RequestIdMiddleware",
    "portal.web.compression.CompressionMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "portal.common.http.security_headers.SecurityHeadersMiddleware",
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
                        "portal.common.front_end.template_loaders.LeanFilesystemLoader",
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

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "identity.User"
AUTHENTICATION_BACKENDS = ["portal.common.sign_in.OperatorBackend"]
SILENCED_SYSTEM_CHECKS = ["auth.W004"]
"""A user's name is unique only in its domain; OperatorBackend specifies the domain."""
PASSWORD_HASHERS = [
    "provisioning.identity.credentials.secret_hashes.Argon2Hasher",
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

LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "portal.common.formats"
USE_TZ = True
TIME_ZONE = "UTC"

CHANNEL_LAYERS: dict[str, Any] = {}
"""Empty: pages are updated through the event log, which is durable."""

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request": {"()": "provisioning.common.processes.tracing.RequestIdFilter"},
        "health": {"()": "portal.common.http.log_filters.HealthCheckFilter"},
    },
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request"]}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "django-q": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
        "stevedore": {"level": "CRITICAL"},  # it warns about checks by remote servers, which are not installed
        "oslo_policy": {"level": "CRITICAL"},  # errors in the rules are reported by provisioning.identity.policy
        "django.request": {"level": "ERROR", "filters": ["health"]},
        "asyncio": {"level": "WARNING"},
    },
}
