package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/seckill/api"
)

// encodedConfig is the response of GET /v1/config, which never changes while the process runs.
type encodedConfig struct {
	body []byte
	tag  string
}

func encodeConfig(c api.PagesConfig) (encodedConfig, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return encodedConfig{}, fmt.Errorf("encode configuration of the pages: %w", err)
	}
	body = append(body, '\n')
	return encodedConfig{body, httpserver.ETag(body)}, nil
}

// GetConfig implements api.ServerInterface.
func (h *handlers) GetConfig(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=10")
	httpserver.WriteCacheable(w, r, "application/json", h.config.tag, h.config.body)
}

// GetTime implements api.ServerInterface.
func (h *handlers) GetTime(w http.ResponseWriter, r *http.Request) {
	httpserver.WriteJSON(w, http.StatusOK, api.Time{ServerTime: h.Core.Now(r.Context()).UnixMilli()})
}
