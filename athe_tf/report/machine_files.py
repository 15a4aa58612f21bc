"""The outcome of requirements for other programs: JUnit XML, and SARIF 2.1.0 for GitHub's code scanning."""

import json
import xml.etree.ElementTree as ET

from athe_tf.report.reading import SavedEvaluation
from athe_tf.utils.digests import text_digest
from athe_tf.utils.streams import printable
from athe_tf.version import __version__

# An evaluation has no date of its own, and JUnit wants one.
NO_DATE = "1970-01-01T00:00:00"
SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def junit(evaluation: SavedEvaluation) -> str:
    """A test case per requirement, as Ant's JUnit task writes them."""
    result = evaluation.result
    failed = sum(not one["met"] for one in result.requirements)
    counts = {"tests": str(len(result.requirements)), "failures": str(failed), "errors": "0"}
    suites = ET.Element("testsuites")
    suite = ET.SubElement(
        suites, "testsuite", counts, name="robustness", package="athe_tf", id="0", hostname="localhost",
        timestamp=NO_DATE, time=f"{sum(one.seconds for one in result.ran):.2f}",
    )  # fmt: skip
    facts = {"model": result.model, "dataset": result.dataset, "norm": result.norm}
    facts |= {"epsilon": result.epsilon_text, "athe_tf": __version__}
    listed = ET.SubElement(suite, "properties")
    for name, value in facts.items():
        ET.SubElement(listed, "property", name=name, value=printable(value))
    for one in result.requirements:
        name = printable(one["requirement"])
        case = ET.SubElement(suite, "testcase", name=name, classname="athe_tf.requirements", time="0")
        detail = printable(one.get("detail", ""))
        if not one["met"]:
            ET.SubElement(case, "failure", message=detail, type="requirement").text = f"{name}: {detail}"
    ET.SubElement(suite, "system-out").text = printable(result.verdict)
    ET.SubElement(suite, "system-err")
    ET.indent(suites)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(suites, encoding='unicode')}\n"


def sarif(evaluation: SavedEvaluation, artifact: str = "evaluation.json") -> str:
    """A rule per requirement and sanity check, and a result for each that failed.

    The fingerprint of a result is that of its images, so that GitHub recognizes a finding in the next run.
    """
    result = evaluation.result
    rules, found = [], []
    images = result.images_fingerprint or f"{result.examples} images of {result.dataset}"
    entries = [(f"requirement/{one['requirement']}", "error", not one["met"], one.get("detail", ""))
               for one in result.requirements]  # fmt: skip
    entries += [
        (f"check/{one['name']}", "warning", one["status"] == "failed", one["detail"]) for one in result.checks
    ]
    for rule, level, failed, detail in entries:
        name = printable(rule)
        rules.append({
            "id": name, "shortDescription": {"text": name.partition("/")[2]},
            "defaultConfiguration": {"level": level},
        })  # fmt: skip
        if failed:
            found.append({
                "ruleId": name, "ruleIndex": len(rules) - 1, "level": level,
                "message": {"text": f"{name.partition('/')[2]}: {printable(detail)}"},
                "locations": [{"physicalLocation": {"artifactLocation": {"uri": artifact}}}],
                "partialFingerprints": {"images/v1": text_digest(f"{name} {images}")},
            })  # fmt: skip
    driver = {"name": "athe_tf", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "results": found, "columnKind": "unicodeCodePoints"}
    return (
        json.dumps(
            {"$schema": SARIF, "version": "2.1.0", "runs": [run], "properties": {"athe_tf": __version__}},
            indent=2,
        )
        + "\n"
    )
