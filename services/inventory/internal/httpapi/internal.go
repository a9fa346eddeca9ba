package httpapi

import (
	"net/http"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/telemetry"
)

// NewInternal returns the handler of the internal listener. It accepts each of the secrets. messages handles the
// messages that arrive directly.
func NewInternal(tel *telemetry.Telemetry, secrets []string, messages http.Handler) http.Handler {
	r := httpserver.NewRouter(tel, httpserver.Trusted(), httpserver.LargeBodies(contract.MaxDirectBytes))
	r.Use(httpserver.Timeout(callTimeout), auth.Internal(secrets...))
	r.Method(http.MethodPost, contract.MessagesPath+"{topic}", messages)
	return r
}
