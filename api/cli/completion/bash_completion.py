"""Completion in bash that quotes what it inserts, and that knows words with colons.

Names of operators and tensors are whatever a network says, ``input 0:0`` or ``$(command)``: inserted as they are, they
would be several words, or run. Bash takes a colon for the end of a word, so that the line is handed over as it stands,
and what is before the last colon is taken off the answer, since bash keeps it.
"""

from __future__ import annotations

import os
from typing import Any

from click.shell_completion import BashComplete, CompletionItem, split_arg_string

_SOURCE = r"""%(complete_func)s() {
    local response completion type value word="${COMP_WORDS[COMP_CWORD]}" breaks="$COMP_WORDBREAKS"
    # Within quotes, bash keeps the quote, and no colon ends a word.
    [[ $word == [\"\']* ]] && breaks=""

    response=$(env GIRIH_LINE="${COMP_LINE:0:COMP_POINT}" GIRIH_WORDBREAKS="$breaks" \
        %(complete_var)s=bash_complete "$1")

    while IFS= read -r completion; do
        type="${completion%%%%,*}" value="${completion#*,}"

        if [[ $type == 'dir' ]]; then
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            case $word in
                \'*) value="$(sed "s/'/'\\\\''/g" <<< "$value")" ;;
                \"*) value="$(sed 's/[\\"$`]/\\&/g' <<< "$value")" ;;
                *) printf -v value '%%q' "$value" ;;
            esac
            COMPREPLY+=("$value")
        fi
    done <<< "$response"

    return 0
}

%(complete_func)s_setup() {
    complete -o nosort -F %(complete_func)s %(prog_name)s
}

%(complete_func)s_setup;
"""


class QuotingBashComplete(BashComplete):
    """Click's completion for bash with :data:`_SOURCE`, which passes the line up to the cursor.

    Files are offered where no name fits; click's own script forgets names where there may be a file as well.
    """

    source_template = _SOURCE
    _kept = ""
    """What bash keeps of the word to complete: all up to the last colon in it."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one to complete, without the command, and what there is of that."""
        line = os.environ.get("GIRIH_LINE", "")
        words = split_arg_string(line)
        # A blank that is escaped or quoted ends no word.
        begins = len(split_arg_string(f"{line}x")) > len(words)
        incomplete = "" if begins else words.pop()
        if ":" in os.environ.get("GIRIH_WORDBREAKS", ""):
            word = incomplete.partition("=")[2] if incomplete.startswith("--") and "=" in incomplete else incomplete
            self._kept = word[: word.rfind(":") + 1]
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Type and value, as the script reads them."""
        return f"{item.type},{str(item.value).removeprefix(self._kept)}"
