{{- /*
The edge of `make up`: the chart's configuration of nginx with places for ports and folders. scripts/dev/edge-conf
renders it into edge.conf.in.
*/ -}}
conf: |
  # The chart's configuration of the edge for this machine. Made by make generate; scripts/dev/services fills in @...@.
  {{- $servers := dict
        "seckill" "127.0.0.1:@SECKILL_PORT@" "order" "127.0.0.1:@ORDER_PORT@" "inventory" "127.0.0.1:@INVENTORY_PORT@" }}
  {{- include "flashsale.nginx" (dict "root" . "listen" (list "127.0.0.1:@EDGE_PORT@") "tls" (list "127.0.0.1:@EDGE_TLS_PORT@")
        "certificate" "@EDGE_DIR@" "health" list "dir" "@EDGE_DIR@"
        "log" "/dev/stderr" "access" "/dev/stdout" "servers" $servers "counts" "127.0.0.1:@EDGE_COUNTS_PORT@") | nindent 2 }}
