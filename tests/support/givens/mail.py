"""`send_mail`: what the program of the reader does with a body."""


async def send_mail(body):
    print(body)
