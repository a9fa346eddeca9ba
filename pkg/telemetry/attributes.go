package telemetry

import "go.opentelemetry.io/otel/attribute"

// Names of attributes of spans and metrics. Order ids are for spans only: as labels of a metric their number would be
// unbounded. User text, tokens and paths are for neither.
const (
	AttrActivityID = attribute.Key("flashsale.activity_id")
	AttrOrderSN    = attribute.Key("flashsale.order_sn")
	AttrOutcome    = attribute.Key("flashsale.outcome")
	AttrReason     = attribute.Key("flashsale.reason")
	AttrRoute      = attribute.Key("http.route")
	AttrBatchSize  = attribute.Key("messaging.batch.message_count")
	AttrTopic      = attribute.Key("messaging.destination.name")
	AttrGroup      = attribute.Key("messaging.consumer.group.name")
	AttrSystem     = attribute.Key("messaging.system")
	AttrOperation  = attribute.Key("messaging.operation.type")
	AttrAttempt    = attribute.Key("flashsale.attempt")
	AttrErrorCode  = attribute.Key("flashsale.code")
	AttrDependency = attribute.Key("flashsale.dependency")
	AttrState      = attribute.Key("flashsale.state")
	AttrKind       = attribute.Key("flashsale.kind")
	AttrProvider   = attribute.Key("flashsale.provider")
)
