"""Software in images, volumes and servers."""

from provisioning.metadefs.wellknown.words import (
    Group,
    Properties,
    Schema,
    WellKnown,
    image,
    integer,
    server,
    text,
    volume,
)

_OF_SOFTWARE = (image(), volume(), server("metadata"))


def _version(of: str) -> Schema:
    return text("Version", f"Version of {of}.")


def _port(of: str, usual: int, *, title: str = "Port") -> Schema:
    return integer(title, f"TCP port on which {of} listens.", least=1, most=65_535, default=str(usual))


def _database(key: str, name: str, port: int, *, admin: str | None = None, editions: tuple[str, ...] = ()) -> Group:
    begins = f"sw_database_{key}"
    properties: dict[str, Schema] = {f"{begins}_version": _version(name)}
    if editions:
        properties[f"{begins}_edition"] = text("Edition", f"Edition of {name}.", *editions)
    properties[f"{begins}_listen_port"] = _port(name, port)
    if admin is not None:
        usual = {"default": admin} if admin else {}
        properties[f"{begins}_admin"] = text("Administrator", f"Administrative user of {name}.", **usual)
    return Group(name, f"The database {name}.", properties)


def _web_server(key: str, name: str) -> Group:
    begins = f"sw_webserver_{key}"
    properties: Properties = {
        f"{begins}_version": _version(name),
        f"{begins}_http_port": _port(name, 80, title="HTTP port"),
        f"{begins}_https_port": _port(name, 443, title="HTTPS port"),
    }
    return Group(name, f"The web server {name}.", properties)


NAMESPACES = (
    WellKnown(
        "OS::Software::DBMS",
        "Databases",
        "Installed databases, and how to connect to them.",
        _OF_SOFTWARE,
        groups=(
            _database("mysql", "MySQL", 3306, admin="root"),
            _database("postgresql", "PostgreSQL", 5432, admin="postgres"),
            _database(
                "sqlserver",
                "SQL Server",
                1433,
                admin="sa",
                editions=("Enterprise", "Standard", "Web", "Developer", "Express"),
            ),
            _database(
                "oracle", "Oracle Database", 1521, editions=("Enterprise", "Standard", "Personal", "Express (XE)")
            ),
            _database("db2", "Db2", 50_000, admin=""),
            _database("mongodb", "MongoDB", 27_017, admin=""),
            _database("couchbaseserver", "Couchbase Server", 8091, admin="admin"),
            _database("redis", "Redis", 6379, admin=""),
            _database("couchdb", "CouchDB", 5984, admin=""),
            _database("cassandra", "Apache Cassandra", 9042, admin="cassandra"),
        ),
    ),
    WellKnown(
        "OS::Software::Runtimes",
        "Languages",
        "Installed runtimes of programming languages.",
        _OF_SOFTWARE,
        groups=tuple(
            Group(name, f"{name} is installed.", {f"sw_runtime_{name.lower()}_version": _version(name)})
            for name in ("Java", "Perl", "PHP", "Python", "Ruby")
        ),
    ),
    WellKnown(
        "OS::Software::WebServers",
        "Web servers",
        "Installed web servers, and the ports on which they listen.",
        _OF_SOFTWARE,
        groups=(_web_server("apache", "Apache HTTP Server"), _web_server("nginx", "Nginx"), _web_server("iis", "IIS")),
    ),
)
