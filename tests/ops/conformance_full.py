"""conformance.py for all cells, at every level of the CPU; and nothing that ir/conformance.def says may be needless."""
import sys

import conformance

sys.argv.append("--all")
sys.exit(conformance.main())
