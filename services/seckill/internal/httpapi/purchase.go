package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/seckill/internal/core"
)

// All buyers send their purchase in the same second. Therefore its parameters, body and response are parsed and
// written by hand: the generated wrapper, two passes of encoding/json over the body and one over the response cost
// more than the decision.

func (h *handlers) postPath(w http.ResponseWriter, r *http.Request) {
	h.CreatePath(w, r, httpserver.PathParam(r, "activity_id"))
}

func (h *handlers) postReservation(w http.ResponseWriter, r *http.Request) {
	h.CreateReservation(w, r, httpserver.PathParam(r, "activity_id"), httpserver.PathParam(r, "path"))
}

func (h *handlers) getReservation(w http.ResponseWriter, r *http.Request) {
	h.GetReservation(w, r, httpserver.PathParam(r, "activity_id"), httpserver.PathParam(r, "order_sn"))
}

// purchaseBody is the body of a purchase.
type purchaseBody struct {
	Lines []purchaseLine `json:"lines"`
}

type purchaseLine struct {
	SKUID string `json:"sku_id"`
	Qty   int64  `json:"qty"`
}

// readPurchase parses and validates the body of a purchase.
func readPurchase(w http.ResponseWriter, r *http.Request) ([]contract.Line, error) {
	raw, err := httpserver.ReadJSON(w, r)
	if err != nil {
		return nil, err
	}
	lines, ok := scanPurchase(raw)
	if !ok {
		// The body has another form or is invalid. encoding/json decides, and names the error.
		var body purchaseBody
		if err := httpserver.Decode(raw, &body); err != nil {
			return nil, err
		}
		lines = fromLines(body.Lines)
	}
	if err := contract.ValidateLines(lines); err != nil {
		field, message, ok := strings.Cut(err.Error(), ": ")
		if !ok {
			field, message = "lines", err.Error()
		}
		return nil, contract.InvalidField(field, message)
	}
	return lines, nil
}

// scanPurchase parses a body of the form that programs usually write: {"lines":[{"sku_id":"1","qty":2},...]} without
// spaces. For every other body, valid or not, it returns false.
func scanPurchase(raw []byte) ([]contract.Line, bool) {
	s := scanner{raw}
	if !s.skip(`{"lines":[`) {
		return nil, false
	}
	lines := make([]contract.Line, 0, 1)
	for {
		var l contract.Line
		var ok bool
		if !s.skip(`{"sku_id":"`) {
			return nil, false
		}
		if l.SKUID, ok = s.digits(); !ok || !s.skip(`","qty":`) {
			return nil, false
		}
		qty, ok := s.digits()
		if !ok || !s.skip(`}`) {
			return nil, false
		}
		var err error
		if l.Qty, err = strconv.ParseInt(qty, 10, 64); err != nil || qty[0] == '0' && len(qty) > 1 {
			return nil, false
		}
		lines = append(lines, l)
		if len(lines) > contract.MaxLines {
			return nil, false
		}
		if s.skip(`]}`) {
			return lines, len(s.rest) == 0
		}
		if !s.skip(`,`) {
			return nil, false
		}
	}
}

type scanner struct{ rest []byte }

func (s *scanner) skip(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

// digits reads 1 to 19 decimal digits.
func (s *scanner) digits() (string, bool) {
	n := 0
	for n < len(s.rest) && n < 19 && s.rest[n] >= '0' && s.rest[n] <= '9' {
		n++
	}
	text := string(s.rest[:n])
	s.rest = s.rest[n:]
	return text, n > 0
}

// writeAccepted writes the response to a purchase, an api.ReservationAccepted. Its values are digits, base64url and
// fixed words, so nothing needs an escape.
func writeAccepted(w http.ResponseWriter, p core.Purchased) {
	result := resultURL(p.ActivityID, p.OrderSN)
	body := make([]byte, 0, 512)
	body = append(body, `{"events_url":"`...)
	body = append(body, result...)
	body = append(body, "/events?ticket="...)
	body = append(body, p.Ticket...)
	body = append(body, `","order_sn":"`...)
	body = append(body, p.OrderSN...)
	body = append(body, `","result_url":"`...)
	body = append(body, result...)
	body = append(body, `","status":"`...)
	body = append(body, p.Status...)
	body = append(body, "\"}\n"...)
	h := w.Header()
	h["Location"] = []string{result}
	h["Content-Type"] = jsonType
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(body) // an error means that the caller has disconnected
}

var jsonType = []string{"application/json"}
