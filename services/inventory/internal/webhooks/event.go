package webhooks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/services/inventory/internal/ledger"
)

// Types are the types of events to which an endpoint may subscribe.
var Types = []string{"order.created", "order.paid", "order.closed", "order.refunded", "order.failed"}

const testType = "webhook.test"

// typeOf returns the type of the event of a row, "" if its state is no event: the units are held, and no order is known.
func typeOf(r ledger.Row) string {
	switch {
	case r.State == ledger.StateReserved && r.OrderCreatedAt == nil:
		return ""
	case r.State == ledger.StateReserved:
		return "order.created"
	case r.State == ledger.StateSold:
		return "order.paid"
	case r.State == ledger.StateRejected:
		return "order.failed"
	case r.Refunded():
		return "order.refunded"
	}
	return "order.closed"
}

// event is the structured JSON of CloudEvents 1.0.
type event struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Subject         string `json:"subject,omitempty"` // order_sn
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	Data            any    `json:"data"`
}

// body returns the body of a delivery.
func body(e Endpoint, d Delivery, data any) ([]byte, error) {
	return json.Marshal(event{
		SpecVersion: "1.0", ID: d.EventID(), Source: "/merchants/" + e.MerchantID, Type: d.Type, Subject: d.OrderSN,
		Time: d.ChangedAt.UTC().Format("2006-01-02T15:04:05.000Z"), DataContentType: "application/json", Data: data,
	})
}

// EventID returns the id of an event for an endpoint. It is the same each time that the event is sent.
func (d Delivery) EventID() string {
	of := d.OrderSN
	if of == "" {
		of = "test"
	}
	return fmt.Sprintf("msg_%s_%s_%d", d.EndpointID, of, d.ChangedAt.UnixMilli())
}

// secretPrefix begins the secrets of Standard Webhooks 1.0.0; 32 bytes in base64 follow.
const secretPrefix = "whsec_"

func newSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// seal returns a secret as the tables have it: the name of the key, and the sealed secret. It belongs to the merchant.
func (s *Service) seal(merchantID, secret string) string {
	keyID, sealed := s.Sealer.Seal(merchantID, []byte(secret))
	return keyID + "." + base64.StdEncoding.EncodeToString(sealed)
}

func (s *Service) open(merchantID, stored string) (string, error) {
	keyID, encoded, _ := strings.Cut(stored, ".")
	sealed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	plain, err := s.Sealer.Open(merchantID, keyID, sealed)
	return string(plain), err
}

// errNoSecret reports that no key of WEBHOOK_KEYS opens the secret of an endpoint.
var errNoSecret = errors.New("the secret cannot be read: replace it")

// keys returns those of the secrets of an endpoint that are valid at this time.
func (s *Service) keys(e Endpoint, now time.Time) (keys [][]byte) {
	stored := []string{e.Secret}
	if e.OldUntil != nil && now.Before(*e.OldUntil) {
		stored = append(stored, e.OldSecret)
	}
	for _, sealed := range stored {
		secret, err := s.open(e.MerchantID, sealed)
		key, derr := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err == nil && derr == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// sign adds the headers of Standard Webhooks to a request, with one signature by each key.
func sign(r *http.Request, keys [][]byte, id string, text []byte, now time.Time) error {
	at := strconv.FormatInt(now.Unix(), 10)
	var signatures []string
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(id + "." + at + "."))
		_, _ = mac.Write(text)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if len(signatures) == 0 {
		return errNoSecret
	}
	r.Header["webhook-id"] = []string{id}
	r.Header["webhook-timestamp"] = []string{at}
	r.Header["webhook-signature"] = []string{strings.Join(signatures, " ")}
	return nil
}
