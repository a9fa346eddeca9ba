package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/seckill/internal/core"
)

// zeroTime stands for server_time while the ETag is computed. It cannot be part of a string, where its quotes would be
// escaped.
const zeroTime = `"server_time":"0001-01-01T00:00:00Z"`

// writeSales responds with one sale or a page of sales, which caches may keep for a second. The ETag is that of the body
// without server_time: as long as nothing else changes, a page that requests them again gets 304.
func writeSales(w http.ResponseWriter, r *http.Request, body any, views []core.ActivityView) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Errorf("encode sales: %w", err)) // the router logs it and responds 500
	}
	text := string(raw)
	tag := httpserver.ETag(raw)
	if len(views) > 0 { // all have the same time
		at := views[0].ServerTime.UTC().Format(time.RFC3339Nano)
		text = strings.ReplaceAll(text, zeroTime, `"server_time":"`+at+`"`)
	}
	w.Header().Set("Cache-Control", "public, max-age=1")
	httpserver.WriteCacheable(w, r, "application/json", tag, []byte(text+"\n"))
}
