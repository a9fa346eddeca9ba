package contract

import (
	"fmt"
	"math"
)

// Stripe states amounts in minor units that are not always those of ISO 4217: https://docs.stripe.com/currencies. Order
// converts them, and inventory refuses to publish prices that Stripe cannot take.

// ToStripe returns an amount in minor units as Stripe states it. The error states why Stripe cannot take the amount. Which
// currencies an account takes, and from and up to which amounts, Stripe alone decides.
func ToStripe(minor int64, code string) (int64, error) {
	switch code {
	case "ISK", "UGX": // no decimals, but Stripe states two
		if minor > math.MaxInt64/100 {
			return 0, fmt.Errorf("amount %d is too large", minor)
		}
		return minor * 100, nil
	case "MGA": // its fifths of a unit are no decimals for Stripe
		if minor%100 != 0 {
			return 0, fmt.Errorf("amounts of %s must be whole units at Stripe", code)
		}
		return minor / 100, nil
	case "BHD", "JOD", "KWD", "OMR", "TND":
		if minor%10 != 0 {
			return 0, fmt.Errorf("amounts of %s must end in 0 at Stripe, in its third decimal", code)
		}
	default:
		if !IsCurrency(code) || CurrencyDigits(code) > 2 {
			return 0, fmt.Errorf("currency %s is not taken by Stripe", code)
		}
	}
	return minor, nil
}

// FromStripe returns an amount of Stripe in minor units. It is the inverse of ToStripe.
func FromStripe(amount int64, code string) int64 {
	switch code {
	case "ISK", "UGX":
		return amount / 100
	case "MGA":
		return amount * 100
	}
	return amount
}
