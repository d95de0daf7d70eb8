"""How to cite the project, in three formats, from one source: pyproject.toml."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ff_memories.base.errors import UserError

SOURCE = Path("pyproject.toml")


@dataclass(frozen=True)
class Source:
    """What pyproject.toml says: of the software, and of the paper that it reproduces."""

    name: str
    title: str
    version: str
    licence: str
    python: str
    author: str
    abstract: str
    keywords: list[str]
    paper: dict[str, Any]


def source(path: Path = SOURCE) -> Source:
    """Read the project's own description."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        project, own = content["project"], content["tool"]["ff-memories"]["citation"]
        return Source(
            project["name"], project["description"].rstrip("."), project["version"], project["license"],
            project["requires-python"], project["authors"][0]["name"], own["abstract"], project["keywords"],
            own["paper"],
        )  # fmt: skip
    except FileNotFoundError:
        raise UserError(f"{path}: no such file", "run this at the top of the project") from None
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise UserError(f"{path}: lacks what a citation needs ({error!r})") from None


def files(about: Source) -> dict[str, str]:
    """Return {file: content} of all formats."""
    return {
        "CITATION.cff": "# Follows from pyproject.toml: ff-memories cite\n" + _yaml(_cff(about)),
        ".zenodo.json": _json(_zenodo(about)),
        "codemeta.json": _json(_codemeta(about)),
    }


def _yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _cff(about: Source) -> dict[str, Any]:
    paper = about.paper
    return {
        "cff-version": "1.2.0",
        "message": "Please cite the software, and the paper whose findings it reproduces.",
        "type": "software",
        "title": f"{about.name}: {about.title}",
        "abstract": about.abstract,
        "version": about.version,
        "license": about.licence,
        "authors": [{"name": about.author}],
        "keywords": about.keywords,
        "references": [
            {
                "type": "conference-paper",
                "title": paper["title"],
                "authors": [dict(zip(("given-names", "family-names"), name, strict=True)) for name in paper["authors"]],
                "year": paper["year"],
                "doi": paper["doi"],
                "url": f"https://doi.org/{paper['doi']}",
                "collection-title": paper["proceedings"],
                "conference": {"name": paper["conference"]},
                "start": paper["pages"][0],
                "end": paper["pages"][1],
            }
        ],
    }


def _zenodo(about: Source) -> dict[str, Any]:
    return {
        "title": f"{about.name}: {about.title}",
        "description": about.abstract,
        "upload_type": "software",
        "version": about.version,
        "license": about.licence,
        "access_right": "open",
        "creators": [{"name": about.author}],
        "keywords": about.keywords,
        "related_identifiers": [
            {
                "identifier": about.paper["doi"],
                "scheme": "doi",
                "relation": "isSupplementTo",
                "resource_type": "publication-conferencepaper",
            }
        ],
    }


def _codemeta(about: Source) -> dict[str, Any]:
    paper = about.paper
    return {
        "@context": "https://w3id.org/codemeta/3.0",
        "@type": "SoftwareSourceCode",
        "name": about.name,
        "description": about.abstract,
        "version": about.version,
        "license": f"https://spdx.org/licenses/{about.licence}",
        "programmingLanguage": {"@type": "ComputerLanguage", "name": "Python"},
        "runtimePlatform": f"Python {about.python}",
        "author": [{"@type": "Organization", "name": about.author}],
        "keywords": about.keywords,
        "referencePublication": {
            "@type": "ScholarlyArticle",
            "@id": f"https://doi.org/{paper['doi']}",
            "name": paper["title"],
            "datePublished": str(paper["year"]),
            "author": [
                {"@type": "Person", "givenName": given, "familyName": family} for given, family in paper["authors"]
            ],
        },
    }
