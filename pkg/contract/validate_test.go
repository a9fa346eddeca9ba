package contract_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

func TestValidID(t *testing.T) {
	for s, want := range map[string]bool{
		"1": true, "9223372036854775807": true, "9223372036854775808": false, "0": false, "01": false, "-1": false, "+1": false,
		"": false, " 1": false, "1 ": false, "1_000": false, "0x1": false, "1e3": false, "١": false, "18446744073709551617": false,
	} {
		require.Equal(t, want, contract.ValidID(s), "%q", s)
	}
}

func TestValidUserID(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "A-z_0.9": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "": false, "a b": false, "ü": false, "a\n": false, "a:b": false,
	} {
		require.Equal(t, want, contract.ValidUserID(s), "%q", s)
	}
}

func TestValidateLines(t *testing.T) {
	many := make([]contract.Line, contract.MaxLines+1)
	for i := range many {
		many[i] = contract.Line{SKUID: string(rune('1'+i%9)) + strings.Repeat("0", i/9), Qty: 1}
	}
	require.NoError(t, contract.ValidateLines(many[:contract.MaxLines]))
	for name, lines := range map[string][]contract.Line{
		"none": nil, "too many": many, "no sku": {{Qty: 1}}, "qty 0": {{SKUID: "1"}}, "qty below": {{SKUID: "1", Qty: -1}},
		"qty above": {{SKUID: "1", Qty: contract.MaxQty + 1}}, "qty far above": {{SKUID: "1", Qty: math.MaxInt64}},
		"twice": {{SKUID: "1", Qty: 1}, {SKUID: "2", Qty: 1}, {SKUID: "1", Qty: 2}},
	} {
		require.Error(t, contract.ValidateLines(lines), name)
	}
}

func TestItemsRefuse(t *testing.T) {
	bad := map[string]error{}
	r := reservation()
	r.UserID = "a b"
	bad["user"] = r.Validate()
	for name, change := range map[string]func(*contract.Deduction){
		"price 0":           func(d *contract.Deduction) { d.Lines[0].Price = 0 },
		"price above":       func(d *contract.Deduction) { d.Lines[0].Price = contract.MaxPrice + 1 },
		"currency":          func(d *contract.Deduction) { d.Currency = "Euro" },
		"pay_within_s 0":    func(d *contract.Deduction) { d.PayWithinS = 0 },
		"pay_within_s over": func(d *contract.Deduction) { d.PayWithinS = contract.MaxPayWithinS + 1 },
	} {
		d := deduction()
		change(&d)
		bad[name] = d.Validate()
	}
	for name, change := range map[string]func(*contract.OrderEvent){
		"type":       func(e *contract.OrderEvent) { e.Type = "shipped" },
		"expires_at": func(e *contract.OrderEvent) { e.ExpiresAt = nil },
		"expires 0":  func(e *contract.OrderEvent) { e.ExpiresAt = &time.Time{} },
		"lines":      func(e *contract.OrderEvent) { e.Lines = nil },
	} {
		e := orderEvent()
		change(&e)
		bad[name] = e.Validate()
	}
	for name, change := range map[string]func(*contract.OrderClose){
		"no order_sns":   func(c *contract.OrderClose) { c.OrderSNs = nil },
		"many order_sns": func(c *contract.OrderClose) { c.OrderSNs = make([]string, 257) },
		"order_sn":       func(c *contract.OrderClose) { c.OrderSNs = []string{"x"} },
		"activity":       func(c *contract.OrderClose) { c.ActivityID = "" },
		"due_at":         func(c *contract.OrderClose) { c.DueAt = time.Time{} },
		"attempt":        func(c *contract.OrderClose) { c.Attempt = -1 },
	} {
		c := orderClose()
		change(&c)
		bad[name] = c.Validate()
	}
	dead := deadLetter()
	dead.Why = ""
	bad["why"] = dead.Validate()
	for name, err := range bad {
		require.Error(t, err, name)
	}
}

func TestSameLines(t *testing.T) {
	a := []contract.Line{{SKUID: "1", Qty: 1}, {SKUID: "2", Qty: 3}}
	require.True(t, contract.SameLines(a, []contract.Line{a[1], a[0]}))
	require.True(t, contract.SameLines(nil, []contract.Line{}))
	require.False(t, contract.SameLines(a, a[:1]))
	require.False(t, contract.SameLines(a, []contract.Line{{SKUID: "1", Qty: 1}, {SKUID: "2", Qty: 2}}))
	require.False(t, contract.SameLines(a, []contract.Line{{SKUID: "1", Qty: 1}, {SKUID: "1", Qty: 1}}))
	require.False(t, contract.SameLines(a, []contract.Line{{SKUID: "1", Qty: 1}, {SKUID: "3", Qty: 0}}))
	require.False(t, contract.SameLines([]contract.Line{{SKUID: "1", Qty: 1}}, []contract.Line{{SKUID: "9", Qty: 0}}))
	require.Equal(t, lines, contract.PlainLines(deduction().Lines))
}

func TestRefusal(t *testing.T) {
	cause := errors.New("inside")
	base := contract.Refuse(contract.CodeSoldOut, "none left")
	full := base.With("may_return_until", "x").With("n", 1).After(time.Second).Because(cause)
	require.Empty(t, base.Members, "copies only")
	require.Len(t, full.Members, 2)
	require.ErrorIs(t, full, cause)
	require.Equal(t, contract.CodeSoldOut, contract.CodeOf(errors.Join(errors.New("x"), full)))
	require.Equal(t, contract.CodeInternal, contract.CodeOf(cause))
	require.Equal(t, []contract.FieldError{{Field: "qty", Message: "must be whole"}}, contract.InvalidField("qty", "must be whole").Fields)
}
