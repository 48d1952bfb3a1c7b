def references():
    return {}
