"""What the server does, without HTTP: functions on a store that raise ``ServiceError``."""
