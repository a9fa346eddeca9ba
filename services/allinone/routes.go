package allinone

import (
	"net/http"
	"strings"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/telemetry"
)

// routes returns the handler of the public listener. The prefix of the path selects the service.
func routes(seckill, order, inventory http.Handler, tel *telemetry.Telemetry) http.Handler {
	byPrefix := []struct {
		prefix  string
		handler http.Handler
	}{
		{"/v1/activities", seckill},
		{"/v1/dev", seckill},
		{"/v1/orders", order},
		{"/v1/payments", order},
		{"/v1/merchant", inventory},
	}
	// Other paths get a response with the same trace and headers as any route.
	elsewhere := httpserver.NewRouter(tel)
	elsewhere.HandleFunc("/*", func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, r, tel.Log, contract.Refuse(contract.CodeNotFound, "There is nothing here."))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, route := range byPrefix {
			if r.URL.Path == route.prefix || strings.HasPrefix(r.URL.Path, route.prefix+"/") {
				route.handler.ServeHTTP(w, r)
				return
			}
		}
		elsewhere.ServeHTTP(w, r)
	})
}
