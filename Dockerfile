# Builds an image with `docker build`, as an alternative to `make images`. One file for all programs:
#
#   docker build --build-arg SERVICE=seckill --build-arg VERSION=v1 -t flashsale/seckill:v1 .
#
# SERVICE is one of seckill, order, inventory, topics, flashctl.
#
# By default the services listen on loopback, which cannot be reached from outside of a container. Run them with
# HTTP_ADDR=:8081, ADMIN_ADDR=:9081 (and INTERNAL_ADDR=:7082 for order, :7083 for inventory). They refuse such addresses without APP_ENV.
FROM golang:1.26-bookworm AS build
ENV GOCACHE=/go/build
WORKDIR /src
COPY . .
ARG SERVICE
ARG VERSION=devel
# Each program builds from its own go.mod alone, without the workspace.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/build \
    case "$SERVICE" in \
      seckill|order|inventory) dir="services/$SERVICE" ;; \
      topics|flashctl) dir=flashctl ;; \
      *) echo "SERVICE is '$SERVICE' and must be one of seckill, order, inventory, topics, flashctl" >&2; exit 1 ;; \
    esac && cd "$dir" && \
    CGO_ENABLED=0 GOWORK=off go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X flashsale.internal/pkg/command.version=$VERSION" -o /out/program "./cmd/$SERVICE"

# Contains only the program and the certificates of public authorities; runs as user 65532.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/program /ko-app/program
USER 65532:65532
ENTRYPOINT ["/ko-app/program"]
