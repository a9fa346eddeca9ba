// Package load is the load generator: it sends the requests of many distinct buyers over a fixed number of connections
// and reports the responses.
package load

import "strconv"

// Target is a sale whose paths and purchases are requested.
type Target struct {
	Host       string // that the requests name
	ActivityID string
	SKUID      string // a purchase takes one unit of it
}

// AppendPath appends a path request to buf.
func (t *Target) AppendPath(buf []byte, token string) []byte {
	return AppendRequest(buf, "POST", "/v1/activities/"+t.ActivityID+"/paths", t.Host, token, "{}")
}

// AppendPurchase appends the purchase of a path to buf.
func (t *Target) AppendPurchase(buf []byte, token, path string) []byte {
	return AppendRequest(buf, "POST", "/v1/activities/"+t.ActivityID+"/paths/"+path+"/reservations", t.Host, token,
		`{"lines":[{"sku_id":"`+t.SKUID+`","qty":1}]}`)
}

// AppendRequest appends the bytes of an HTTP/1.1 request to buf. A request without a token has no Authorization, one
// without a body no Content-Type. Each of headers is a line without its end.
func AppendRequest(buf []byte, method, target, host, token, body string, headers ...string) []byte {
	buf = append(buf, method...)
	buf = append(buf, ' ')
	buf = append(buf, target...)
	buf = append(buf, " HTTP/1.1\r\nHost: "...)
	buf = append(buf, host...)
	if token != "" {
		buf = append(buf, "\r\nAuthorization: Bearer "...)
		buf = append(buf, token...)
	}
	for _, header := range headers {
		buf = append(buf, "\r\n"...)
		buf = append(buf, header...)
	}
	if body != "" {
		buf = append(buf, "\r\nContent-Type: application/json\r\nContent-Length: "...)
		buf = strconv.AppendInt(buf, int64(len(body)), 10)
	}
	buf = append(buf, "\r\n\r\n"...)
	return append(buf, body...)
}
