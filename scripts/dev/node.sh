# shellcheck shell=bash disable=SC2154
# Node for the pages. Sourced by scripts/dev/deps and scripts/dev/web.

# node_on_path puts a Node that is recent enough first on PATH; fails if there is none.
node_on_path() {
    local has
    has=$(node --version 2>/dev/null) && recent "${has#v}" && return
    [[ -x $NODE_DIR/node_modules/node/bin/node ]] && export PATH=$NODE_DIR/node_modules/node/bin:$PATH
}

# recent <version>: succeeds if it is NODE_LEAST or later.
recent() { [[ $(printf '%s\n' "$NODE_LEAST" "$1" | sort -V | head -n 1) == "$NODE_LEAST" ]]; }

# node_up installs Node by npm, with the machine's older Node, unless there is one that is recent enough.
node_up() {
    local fresh
    if node_on_path; then return; fi
    need npm
    say "fetching Node $NODE_VERSION by npm"
    mkdir -p "${NODE_DIR%/*}"
    fresh=$(mktemp -d "$NODE_DIR.XXXXXX")
    retry npm install --silent --no-audit --no-fund --no-save --prefix "$fresh" "node@$NODE_VERSION"
    "$fresh/node_modules/node/bin/node" --version >/dev/null || die "Node $NODE_VERSION does not start"
    rm -rf "$NODE_DIR"
    mv "$fresh" "$NODE_DIR" # complete or not at all
}
