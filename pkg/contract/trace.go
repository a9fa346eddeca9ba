package contract

// header points at what every kind of item has besides its own fields.
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
	panic("contract: an item without a traceparent") // the type set of Item has no other
}

// KeyOf is what an operator may search the item by: its order_sn, "" when it is about several.
func KeyOf[T Item](item T) string {
	if orderSN, _ := header(&item); orderSN != nil {
		return *orderSN
	}
	return ""
}

// TraceparentOf is the span that the item continues, "" when its purchase is not sampled.
func TraceparentOf[T Item](item T) string {
	_, traceparent := header(&item)
	return *traceparent
}

// Under returns the item as a continuation of that span.
func Under[T Item](item T, span string) T {
	_, traceparent := header(&item)
	*traceparent = span
	return item
}
