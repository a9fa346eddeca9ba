package contract

// header returns pointers to the fields that the item types share. orderSN is nil for an item about several orders.
func header[T Item](item *T) (orderSN, traceparent *string) {
	switch v := any(item).(type) {
	case *Reservation:
		return &v.OrderSN, &v.Traceparent
	case *Deduction:
		return &v.OrderSN, &v.Traceparent
	case *OrderEvent:
		return &v.OrderSN, &v.Traceparent
	case *DeadLetter:
		return &v.OrderSN, &v.Traceparent
	case *OrderClose:
		return nil, &v.Traceparent
	}
	panic("contract: an item without a traceparent") // unreachable: the type set of Item has no other
}

// KeyOf returns the key by which an operator can search the item: its order_sn, or "" if it is about several orders.
func KeyOf[T Item](item T) string {
	if orderSN, _ := header(&item); orderSN != nil {
		return *orderSN
	}
	return ""
}

// TraceparentOf returns the span that the item continues, "" if its purchase is not sampled.
func TraceparentOf[T Item](item T) string {
	_, traceparent := header(&item)
	return *traceparent
}

// Under returns a copy of the item that continues the given span.
func Under[T Item](item T, span string) T {
	_, traceparent := header(&item)
	*traceparent = span
	return item
}
