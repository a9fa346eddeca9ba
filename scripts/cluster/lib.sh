# shellcheck shell=bash
# Shared by the scripts in this folder: prepares and stops the cluster. Sourced, not run.
#
# Set by environment:
#   CLUSTER   the program that creates a cluster on this machine   (../shared/cluster/cluster)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

CLUSTER=${CLUSTER:-$PWD/../shared/cluster/cluster}
[[ -x $CLUSTER ]] || {
    echo "$CLUSTER is missing: CLUSTER must name the program that creates the cluster" >&2
    exit 2
}
cache=${CLUSTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/flashsale-cluster}
CHART=$PWD/deploy/helm/flashsale
state=$PWD/.run/cluster # images, flashctl, and the files `started` and `loaded`
mkdir -p "$state"
eval "$("$CLUSTER" env)" # kubectl and KUBECONFIG

times=()
starting= # true while this process starts a cluster and has not recorded it

# phase <name> <command>...: runs the command and records its time.
phase() {
    local name=$1 from=$SECONDS
    shift
    printf '\n=== %s (%s)\n' "$name" "$(date -u +%H:%M:%S)"
    "$@"
    times+=("$(printf '%-32s %4d s' "$name" $((SECONDS - from)))")
}

print_times() {
    printf '\n'
    ((${#times[@]} == 0)) || printf '%s\n' "${times[@]}"
    printf '%-32s %4d s\n' "total" "$SECONDS"
}

# The cluster's daemons must not inherit the lock of prepare.
cluster() { "$CLUSTER" "$@" 8>&-; }

# cluster_id prints a checksum of the kubeconfig, which holds a certificate of this cluster alone.
cluster_id() { [[ -f ${KUBECONFIG:-} ]] && sha256sum <"$KUBECONFIG" | cut -c 1-16; }

is_up() { "$CLUSTER" status >/dev/null 2>&1; }

# is_ours: the cluster was started by prepare, in this process or an earlier one.
is_ours() { [[ -n $starting ]] || [[ -f $state/started && $(<"$state/started") == "$(cluster_id)" ]]; }

# stop_cluster stops the cluster if prepare started it.
stop_cluster() {
    is_ours || return 0
    cluster down || return
    starting=
    rm -f "$state/started" "$state/loaded"
}

# sources prints a checksum of everything that the images are built from.
sources() {
    {
        go version
        echo "${BASE:-}"
        find .ko.yaml go.work scripts/images pkg services flashctl -type f ! -name '*_test.go' -print0 |
            LC_ALL=C sort -z | xargs -0 sha256sum
    } | sha256sum | cut -c 1-12
}

# image_tar <ko> <tag>: builds the images with that tag unless they exist.
image_tar() {
    local tar=$state/$2.tar
    [[ ! -f $tar ]] || return 0
    VERSION=$2 TAR=$tar.part scripts/images "$1"
    mv "$tar.part" "$tar"
}

# stand_in <name:tag>: builds the replacement of an image unless it exists, and prints its file.
stand_in() {
    local tar=$cache/images/debian-${1//[:\/]/-}.tar
    [[ -f $tar && $tar -nt scripts/cluster/debian-image ]] ||
        scripts/cluster/debian-image "$cache/bin/mkimage" "$1" "$tar" >&2 || return
    echo "$tar"
}

# images <ko>: builds both sets of images and the replacements of other images of the chart, and loads those that are
# missing.
images() {
    local edge tunnel loaded
    find "$state" -maxdepth 1 -name '*.tar*' ! -name "$FIRST_TAG*" -delete
    image_tar "$1" "$FIRST_TAG"
    image_tar "$1" "$NEXT_TAG"
    edge=$(stand_in "$(sed -n 's/^  image: \(nginx:.*\)$/\1/p' "$CHART/values.yaml")")
    tunnel=$(stand_in "$(sed -n 's/^ *image: \(.*stunnel:.*\)$/\1/p' "$CHART/values-secured.yaml")")
    loaded="$(cluster_id) $FIRST_TAG $(cat "$edge" "$tunnel" | sha256sum)"
    if [[ -f $state/loaded && $(<"$state/loaded") == "$loaded" ]]; then
        echo "loaded already: $FIRST_TAG, $NEXT_TAG, nginx, stunnel"
        return
    fi
    rm -f "$state/loaded"
    cluster load "$state/$FIRST_TAG.tar" "$state/$NEXT_TAG.tar" "$edge" "$tunnel"
    echo "$loaded" >"$state/loaded"
}

# compile builds the demo, and the tests so that their first run starts at once.
compile() {
    go build -o "$state/flashctl" ./flashctl/cmd/flashctl
    go test -c -o /dev/null ./test/cluster
}

# prepare <ko>: starts the cluster and loads all images, unless that is done; a second call takes seconds. It waits
# while another process prepares. It sets FIRST_TAG and NEXT_TAG, which depend on the content of the sources: an
# unchanged tree has the same tags.
prepare() {
    exec 8>"$state/lock"
    flock 8
    phase "packages" scripts/dev/deps cluster
    if ! is_up && ! is_ours; then starting=true; fi
    phase "cluster up" cluster up
    if [[ -n $starting ]]; then
        cluster_id >"$state/started"
        starting=
    fi
    phase "cluster infra" cluster infra
    FIRST_TAG=t$(sources)
    NEXT_TAG=$FIRST_TAG-next
    phase "images" images "$1"
    phase "compile" compile
    exec 8>&-
}
